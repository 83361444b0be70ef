/* Filters to compare tamis with. Those in C are written here, from published texts. */
#ifndef TAMIS_TESTS_BENCH_PEERS_H
#define TAMIS_TESTS_BENCH_PEERS_H

#include "tests/bench/bench.h"

/* ---- sbbf.c: the split block Bloom filter of Parquet ---- */

struct sbbf;
struct sbbf *sbbf_new(uint64_t n_keys, double error); /* empty */
void sbbf_add(struct sbbf *sbbf, const uint64_t *hashes, size_t n);
void sbbf_free(struct sbbf *sbbf);
/* The subject is a struct subject. */
ask_fn ask_sbbf, ask_sbbf_inline, ask_sbbf_calls;
ask_fn add_sbbf, add_sbbf_inline; /* to scratch_sbbf */

/* ---- rooms/filters.c: RocksDB's, of strings ---- */

ask_fn ask_rocksdb, ask_rocksdb_32;

/* ---- lines.c: bare loads of lines of 64 bytes ---- */

/* Lines of the lanes of one stage more. */
void lines_add(struct lines *lines, const uint8_t *base, const struct geometry *g);
/* The same of a band of a pack. Returns where its rows end. */
const uint8_t *lines_add_rows(struct lines *lines, const uint8_t *rows,
                              const struct tamis_pack_place *place);
/* Lines of absent keys are in first lanes alone; of those that a piece names. */
ask_fn ask_lines, ask_lines_ahead, ask_line_of;

/* ---- elias_fano.c: a sorted list of numbers ---- */

struct elias_fano *elias_fano_new(const uint64_t *sorted, size_t n);
uint64_t elias_fano_bits(const struct elias_fano *e);
void elias_fano_free(struct elias_fano *e);
ask_fn ask_elias_fano;

#endif
