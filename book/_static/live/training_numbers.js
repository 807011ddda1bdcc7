"use strict";

// The numbers that the models were trained on. There are some 26,000, too many to send along, so
// the page generates them again: the same random generator with the same seed takes the same steps as
// french_pairs(30_000, seed=0) and split(…, fraction=0.04, seed=0) of book/attention_course/data/numbers.py.
const TrainingNumbers = (() => {
  const COUNT = 30000;
  const LONGEST = 27; // French words
  const TEST_FRACTION = 0.04;
  const SLICE = 250; // numbers generated before the page gets a turn

  // Python's random.Random(0): the generator MT19937, and what Python makes of its bits.
  class PythonRandom {
    constructor() {
      const state = new Uint32Array(624);
      const mixed = (i, factor) => state[i] ^ Math.imul(state[i - 1] ^ (state[i - 1] >>> 30), factor);
      state[0] = 19650218;
      for (let i = 1; i < 624; i++) state[i] = mixed(i, 1812433253) + i;
      for (let i = 1; i < 624; i++) state[i] = mixed(i, 1664525); // plus the seed, which is 0
      state[0] = state[623];
      state[1] = mixed(1, 1664525);
      for (let i = 2; i < 624; i++) state[i] = mixed(i, 1566083941) - i;
      state[0] = state[623];
      state[1] = mixed(1, 1566083941) - 1;
      state[0] = 0x80000000;
      this.state = state;
      this.place = 624;
    }

    // 32 random bits.
    bits() {
      if (this.place === 624) this.renew();
      let bits = this.state[this.place++];
      bits ^= bits >>> 11;
      bits ^= (bits << 7) & 0x9d2c5680;
      bits ^= (bits << 15) & 0xefc60000;
      return (bits ^ (bits >>> 18)) >>> 0;
    }

    renew() {
      const { state } = this;
      for (let i = 0; i < 624; i++) {
        const joined = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff);
        state[i] = state[(i + 397) % 624] ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0);
      }
      this.place = 0;
    }

    // A number from 0 to 1, of 53 random bits.
    random() {
      return ((this.bits() >>> 5) * 2 ** 26 + (this.bits() >>> 6)) / 2 ** 53;
    }

    // A whole number below n, which is below 2³².
    below(n) {
      const unused = Math.clz32(n);
      let chosen = this.bits() >>> unused;
      while (chosen >= n) chosen = this.bits() >>> unused;
      return chosen;
    }

    choice(items) {
      return items[this.below(items.length)];
    }

    // One of the items, with probabilities proportional to the weights.
    weightedChoice(items, weights) {
      let sum = 0;
      const sums = weights.map((weight) => (sum += weight));
      const place = this.random() * sum;
      return items[Math.min(sums.filter((upper) => upper <= place).length, items.length - 1)];
    }

    shuffle(items) {
      for (let i = items.length - 1; i > 0; i--) {
        const j = this.below(i + 1);
        [items[i], items[j]] = [items[j], items[i]];
      }
    }

    // As many different items; Python has one way for short lists and one for long ones.
    sample(items, count) {
      const short = 21 + (count > 5 ? 4 ** Math.ceil(Math.log(count * 3) / Math.log(4)) : 0);
      if (items.length <= short) {
        const pool = [...items];
        return Array.from({ length: count }, (_, i) => {
          const j = this.below(pool.length - i);
          const chosen = pool[j];
          pool[j] = pool[pool.length - i - 1];
          return chosen;
        });
      }
      const places = new Set();
      while (places.size < count) places.add(this.below(items.length));
      return [...places].map((place) => items[place]);
    }
  }

  const pause = () => new Promise((resume) => setTimeout(resume));

  // valuesByLength[group]: the values of a group of three digits, from the units, by their number of French words.
  // ways[groups][length]: how many numbers of so many groups have so many French words.
  async function countWays() {
    const valuesByLength = [];
    const ways = [[1]];
    for (let group = 0; group < 4; group++) {
      await pause();
      const byLength = new Map([[0, [0]]]);
      for (let value = 1; value < 1000; value++) {
        const length = NumberWords.french(value * 1000 ** group).length;
        if (!byLength.has(length)) byLength.set(length, []);
        byLength.get(length).push(value);
      }
      valuesByLength.push(byLength);
      ways.push(Array.from({ length: LONGEST + 1 }, (_, length) => {
        let sum = 0;
        for (const [words, values] of byLength) sum += values.length * (ways[group][length - words] ?? 0);
        return sum;
      }));
    }
    return { valuesByLength, ways };
  }

  function numberOfLength(length, random, { valuesByLength, ways }) {
    const groups = random.choice([1, 2, 3, 4].filter((count) => ways[count][length]));
    let number = 0;
    for (let group = groups - 1; group >= 0; group--) {
      const byLength = valuesByLength[group];
      const lengths = [...byLength.keys()];
      const weights = lengths.map((words) =>
        byLength.get(words).length * (ways[group][length - words] ?? 0));
      const words = random.weightedChoice(lengths, weights);
      number += random.choice(byLength.get(words)) * 1000 ** group;
      length -= words;
    }
    return number;
  }

  // Round half to even, as Python does.
  function round(x) {
    const floor = Math.floor(x);
    const isHalf = x - floor === 0.5;
    return isHalf ? floor + (floor % 2) : Math.round(x);
  }

  // The set of all numbers that the models were trained on, as a promise.
  async function generate() {
    const tables = await countWays();
    const random = new PythonRandom();
    const lengths = Array.from({ length: COUNT }, (_, i) => 1 + (i % LONGEST));
    random.shuffle(lengths);
    const byLength = Array.from({ length: LONGEST + 1 }, () => new Set());
    for (let i = 0; i < COUNT; i++) {
      byLength[lengths[i]].add(numberOfLength(lengths[i], random, tables));
      if (i % SLICE === SLICE - 1) await pause();
    }
    const chooser = new PythonRandom();
    const numbers = new Set(byLength.flatMap((same) => [...same]));
    for (const same of byLength) {
      const test = chooser.sample([...same], round(TEST_FRACTION * same.size));
      for (const number of test) numbers.delete(number);
    }
    return numbers;
  }

  return { generate };
})();
