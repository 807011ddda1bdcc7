"use strict";

// Whether position i may attend to position j, as the package's masks of these names say; both count from 0.
const Rules = {
  local: (i, j, radius) => Math.abs(i - j) <= radius, // (7.1)
  atrous: (i, j, rate) => (i - j) % rate === 0, // (7.1)
  causal: (i, j) => j <= i,
  strided: (i, j, stride) => j <= i && (i - j <= stride || (i - j) % stride === 0),
  fixed: (i, j, stride, expressive = 1) => // (7.4)
    j <= i && (Math.floor(i / stride) === Math.floor(j / stride) || j % stride >= stride - expressive),
};
