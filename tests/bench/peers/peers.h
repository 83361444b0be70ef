/* What tamis is compared with. Those in C are written here, from published texts. */
#ifndef TAMIS_TESTS_BENCH_PEERS_H
#define TAMIS_TESTS_BENCH_PEERS_H

#include "tests/bench/bench.h"

/* ---- sbbf.c: the split block Bloom filter of Parquet ---- */

struct sbbf;
struct sbbf *sbbf_new(uint64_t n_keys, double error); /* empty */
void sbbf_add(struct sbbf *sbbf, const uint64_t *hashes, size_t n);
void sbbf_free(struct sbbf *sbbf);
extern bool (*sbbf_has)(const struct sbbf *sbbf, uint64_t hash);
/* The subject is a struct subject. */
ask_fn ask_sbbf, ask_sbbf_inline, ask_sbbf_inline_plain, ask_sbbf_calls;
ask_fn add_sbbf, add_sbbf_inline; /* to scratch_sbbf */
/* Many of them; the subject is a struct many_sbbf. */
struct many_sbbf {
    struct sbbf **of;
    size_t n;
};
ask_fn ask_sbbf_one_of, ask_sbbf_all_of;

/* ---- rooms/filters.c: RocksDB's, of strings ---- */

ask_fn ask_rocksdb, ask_rocksdb_32;

/* ---- lines.c: bare loads of lines of 64 bytes ---- */

/* Lines of the lanes of one stage more. */
void lines_add(struct lines *lines, const uint8_t *base, const struct geometry *g);
/* Lines of absent keys are in first lanes alone; of those that a piece names. */
ask_fn ask_lines, ask_lines_ahead, ask_line_of;

/* ---- chain.c: a growing filter in RedisBloom's manner ---- */

struct chain *chain_new(uint64_t first_capacity, double error);
bool chain_has(const struct chain *chain, uint64_t hash);
void chain_add(struct chain *chain, uint64_t hash);
void chain_free(struct chain *chain);
ask_fn ask_chain;

/* ---- elias_fano.c: a sorted list of numbers ---- */

struct elias_fano *elias_fano_new(const uint64_t *sorted, size_t n);
uint64_t elias_fano_bits(const struct elias_fano *e);
void elias_fano_free(struct elias_fano *e);
ask_fn ask_elias_fano;

#endif
