"use strict";

// Number words, the same as those of book/attention_course/data/numbers.py: English to translate, and the
// correct French to compare a translation with.
const NumberWords = (() => {
  const LARGEST = 999999999999;
  const GROUPS = [3, 2, 1, 0]; // thousands of thousands of thousands, … , units

  const ENGLISH = ("zero one two three four five six seven eight nine ten eleven twelve thirteen " +
    "fourteen fifteen sixteen seventeen eighteen nineteen").split(" ");
  const ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
  const ENGLISH_GROUPS = ["", "thousand", "million", "billion"];

  const FRENCH = ("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize " +
    "quatorze quinze seize").split(" ");
  const FRENCH_TENS = "- dix vingt trente quarante cinquante soixante".split(" ");
  const FRENCH_GROUPS = ["", "mille", "million", "milliard"];

  // The value, 0 to 999, of a group of three digits.
  function valueOfGroup(number, group) {
    return Math.floor(number / 1000 ** group) % 1000;
  }

  function englishGroup(value, group) {
    const words = [];
    const rest = value % 100;
    if (value >= 100) words.push(ENGLISH[Math.floor(value / 100)], "hundred");
    if (value >= 100 && rest) words.push("and");
    if (rest >= 20) words.push(ENGLISH_TENS[Math.floor(rest / 10)]);
    const unit = rest < 20 ? rest : rest % 10;
    if (unit) words.push(ENGLISH[unit]);
    if (group) words.push(ENGLISH_GROUPS[group]);
    return words;
  }

  function english(number) {
    const words = [];
    for (const group of GROUPS) {
      const value = valueOfGroup(number, group);
      if (group === 0 && number > 1000 && value > 0 && value < 100) words.push("and");
      if (value) words.push(...englishGroup(value, group));
    }
    return words;
  }

  // 1 to 99. Seventy is sixty-ten, eighty four-twenties, ninety four-twenty-ten.
  function frenchBelowHundred(value, isLast) {
    if (value <= 16) return [FRENCH[value]];
    if (value < 20) return ["dix", FRENCH[value - 10]];
    if (value === 80) return ["quatre", isLast ? "vingts" : "vingt"];
    if (value > 80) return ["quatre", "vingt", ...frenchBelowHundred(value - 80, isLast)];
    const ten = Math.min(Math.floor(value / 10), 6);
    const rest = value - 10 * ten;
    if (rest === 0) return [FRENCH_TENS[ten]];
    const and = rest === 1 || rest === 11 ? ["et"] : [];
    return [FRENCH_TENS[ten], ...and, ...frenchBelowHundred(rest, isLast)];
  }

  // "cent" and "vingt" have an s at the end of a number, and before "millions", which is a noun.
  function frenchBelowThousand(value, isLast) {
    const hundreds = Math.floor(value / 100);
    const rest = value % 100;
    const words = hundreds > 1 ? [FRENCH[hundreds]] : [];
    if (hundreds) words.push(hundreds > 1 && !rest && isLast ? "cents" : "cent");
    if (rest) words.push(...frenchBelowHundred(rest, isLast));
    return words;
  }

  function frenchGroup(value, group) {
    if (group === 0) return frenchBelowThousand(value, true);
    if (group === 1) return [...(value > 1 ? frenchBelowThousand(value, false) : []), "mille"];
    return [...frenchBelowThousand(value, true), FRENCH_GROUPS[group] + (value > 1 ? "s" : "")];
  }

  function french(number) {
    return GROUPS.flatMap((group) => {
      const value = valueOfGroup(number, group);
      return value ? frenchGroup(value, group) : [];
    });
  }

  const FRENCH_VALUES = new Map([
    ...FRENCH.map((word, value) => [word, value]),
    ...FRENCH_TENS.map((word, ten) => [word, 10 * ten]),
    ["et", 0],
  ]);
  const FRENCH_POWERS = new Map([
    ["mille", 1e3], ["million", 1e6], ["millions", 1e6], ["milliard", 1e9], ["milliards", 1e9],
  ]);

  // The number that French words say, or null where they are not the words of a number.
  function valueOfFrench(words) {
    let total = 0;
    let group = 0; // the value of the words since the last "mille", "million" or "milliard"
    for (const word of words) {
      if (FRENCH_POWERS.has(word)) {
        total += Math.max(group, 1) * FRENCH_POWERS.get(word);
        group = 0;
      } else if (word === "cent" || word === "cents") {
        group = Math.max(group, 1) * 100;
      } else if ((word === "vingt" || word === "vingts") && group % 100 === 4) {
        group += 80 - 4;
      } else {
        group += FRENCH_VALUES.get(word) ?? NaN;
      }
    }
    total += group;
    const isNumber = total >= 1 && total <= LARGEST;
    return isNumber && french(total).join(" ") === words.join(" ") ? total : null;
  }

  const ENGLISH_VALUES = new Map([
    ...ENGLISH.map((word, value) => [word, value]),
    ...ENGLISH_TENS.map((word, ten) => [word, 10 * ten]),
  ]);
  const withoutAnd = (words) => words.filter((word) => word !== "and");

  // The number that English words say, with or without "and" and hyphens, or null.
  function valueOfEnglish(text) {
    const words = withoutAnd(text.toLowerCase().split(/[\s,-]+/)).map((word) => (word === "a" ? "one" : word));
    let total = 0;
    let group = 0; // the value of the words since the last "thousand", "million" or "billion"
    for (const word of words) {
      const power = ENGLISH_GROUPS.indexOf(word);
      if (power > 0) {
        total += group * 1000 ** power;
        group = 0;
      } else if (word === "hundred") {
        group *= 100;
      } else {
        group += ENGLISH_VALUES.get(word) ?? NaN;
      }
    }
    total += group;
    const isNumber = total >= 1 && total <= LARGEST;
    return isNumber && withoutAnd(english(total)).join(" ") === words.join(" ") ? total : null;
  }

  function withCommas(number) {
    return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  const ACCEPTED = `Please type a whole number from 1 to ${withCommas(LARGEST)}, ` +
    "in digits or in English words.";

  // What a reader has typed: { number }, or { problem } in words.
  function read(text) {
    const typed = text
      .replace(/[０-９，]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
      .trim();
    if (typed === "") return { problem: ACCEPTED };
    const said = typed.length < 200 && valueOfEnglish(typed);
    if (said) return { number: said };
    if (!/^[-−]?(\d+|\d{1,3}([,\s'’]\d{3})+)$/.test(typed)) {
      return { problem: `That is not a whole number. ${ACCEPTED}` };
    }
    const digits = typed.replace(/\D/g, "").replace(/^0+/, "");
    const isNegative = /^[-−]/.test(typed);
    if (digits === "" || isNegative) return { problem: `That number is too small. ${ACCEPTED}` };
    if (digits.length > 12) return { problem: `That number is too large. ${ACCEPTED}` };
    return { number: Number(digits) };
  }

  // Which words of a translation are right: those of a longest common subsequence.
  function rightWords(words, target) {
    const lengths = Array.from({ length: words.length + 1 }, () => Array(target.length + 1).fill(0));
    for (let i = words.length - 1; i >= 0; i--) {
      for (let j = target.length - 1; j >= 0; j--) {
        lengths[i][j] = words[i] === target[j]
          ? lengths[i + 1][j + 1] + 1
          : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      }
    }
    let j = 0;
    return words.map((word, i) => {
      while (j < target.length && word !== target[j] && lengths[i][j + 1] > lengths[i + 1][j]) j++;
      const isRight = j < target.length && word === target[j];
      if (isRight) j++;
      return isRight;
    });
  }

  return { english, french, valueOfFrench, withCommas, read, rightWords };
})();
