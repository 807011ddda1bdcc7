"""How sparse attention is computed: tiles of a sequence, merged softmaxes, block masks."""
