/* Golden files put together from SPEC.md's records: what the format allows and this
 * library does not write by itself. Their keys are "key-0..." and so on, as in the
 * others. */
#ifndef TAMIS_TESTS_GOLDEN_HANDMADE_H
#define TAMIS_TESTS_GOLDEN_HANDMADE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_HANDMADE = 6, SEED = 0x7a317 };

/* The file of number n (0 .. N_HANDMADE - 1): its name, its bytes (the caller frees
 * them) and how many keys are in it. */
const char *handmade_file(unsigned n, uint8_t **bytes, size_t *n_bytes,
                          unsigned *n_keys);

/* Key number i of a golden file: "key" if it is in, "other" if not. */
size_t golden_key(char *out, const char *kind, unsigned i);

#endif
