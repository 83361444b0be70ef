/* The figures: every one in one table, so that one that is not measured is noticed. A
 * room's stand next to each other. small and large are filters in the cache and in
 * memory; where the name has no other word the error is 1%. */
#include "tests/bench/peers/peers.h"

#define N NAN

/* A figure with the ratios that are asked, for absent and present keys; N: none. */
#define F(in, name, on, way, other, in_units, absent, present)                         \
    {                                                                                  \
        .room = in, .id = name, .what = on, .ours_is = way, .peer_is = other,          \
        .unit = in_units, .asked = {                                                   \
            absent,                                                                    \
            present                                                                    \
        }                                                                              \
    }

/* One that needs no code: two ways to ask, or to add. */
#define ONE(name, on, way, ours, other, peer, how, planned, keys, absent, present)     \
    {                                                                                  \
        .room = room_filters, .id = name, .what = on, .ours_is = way,                  \
        .peer_is = other, .unit = "ns", .ours_ask = ours, .peer_ask = peer,            \
        .traits = how, .error = planned, .few = keys, .asked = {                       \
            absent,                                                                    \
            present                                                                    \
        }                                                                              \
    }

#define SINGLE "one key at a time"
#define CALL   "one key a call"
#define PLAIN  "one key at a time, no vectors"
#define HAND   "the same bits by hand"
#define BLOCKS "blocks in memory, one key "
#define ADDING "adding to blocks, one "
#define STRING "strings of 16 to 40 bytes, one a call"

#define INLINE(id, how, error, absent, present)                                        \
    ONE(id, SINGLE, "inline", ask_inline, "SBBF inline", ask_sbbf_inline, how, error,  \
        1, absent, present)
#define BY_HAND(id, error)                                                             \
    ONE(id, SINGLE, "inline", ask_inline, HAND, ask_hand, LARGE | SAME, error, 1, 1.1, \
        1.1)
#define CALLS(id, on, how, error, keys)                                                \
    ONE(id, on, "call", ask_calls, "SBBF call", ask_sbbf_calls, how, error, keys, N, N)

#define MANY        "many packed segments"
#define FEW         "few"
#define LAW(id, on) F(room_laws, id, on ", instructions", MANY, FEW, "", 1.5, N)

struct figure figures[] = {
    INLINE("single_small_inline", 0, 0.01, 1.45, 1.45),
    INLINE("single_large_inline", LARGE, 0.01, 1.4, 1.4),
    INLINE("single_large_01pct", LARGE, 0.001, N, N),
    INLINE("single_large_001pct", LARGE, 0.0001, N, N),
    ONE("single_small_call", CALL, "call", ask_call, "SBBF call", ask_sbbf, 0, 0.01, 1,
        N, N),
    ONE("single_large_call", CALL, "call", ask_call, "SBBF call", ask_sbbf, LARGE, 0.01,
        1, N, N),
    BY_HAND("single_large_01pct_hand", 0.001),
    BY_HAND("single_large_001pct_hand", 0.0001),
    ONE("single_large_loads", SINGLE, "inline", ask_inline, "bare loads", ask_lines,
        LARGE, 0.01, 1, N, N),
    ONE("single_small_plain", PLAIN, "inline", ask_inline_plain, "our call", ask_call,
        SAME, 0.01, 1, 1, 1),
    ONE("single_large_plain", PLAIN, "inline", ask_inline_plain, "our call", ask_call,
        LARGE | SAME, 0.01, 1, 1, 1),

    CALLS("calls_small_4", "4 keys a call", 0, 0.01, 4),
    CALLS("calls_small_32", "32 keys a call", 0, 0.01, 32),
    CALLS("calls_small_1024", "1,024 keys a call", 0, 0.01, 1024),
    CALLS("calls_large_4", "4 keys a call", LARGE, 0.01, 4),
    CALLS("calls_large_32", "32 keys a call", LARGE, 0.01, 32),
    CALLS("calls_large_1024", "1,024 keys a call", LARGE, 0.01, 1024),
    ONE("calls_large_loads", "1,024 keys a call", "call", ask_calls,
        "bare loads, prefetched", ask_lines_ahead, LARGE, 0.01, 1024, N, N),

    ONE("blocks_small_call", BLOCKS "a call", "call", ask_blocks, "SBBF call", ask_sbbf,
        0, 0.01, 1, 1.7, 1.7),
    ONE("blocks_large_call", BLOCKS "a call", "call", ask_blocks, "SBBF call", ask_sbbf,
        LARGE, 0.01, 1, 1.6, 1.6),
    ONE("blocks_add_small_inline", ADDING "at a time", "inline", add_blocks_inline,
        "SBBF inline", add_sbbf_inline, WORK, 0.01, 1, 1.3, N),
    ONE("blocks_add_large_inline", ADDING "at a time", "inline", add_blocks_inline,
        "SBBF inline", add_sbbf_inline, LARGE | WORK, 0.01, 1, 1.3, N),
    ONE("blocks_add_small_call", ADDING "a call", "call", add_blocks, "SBBF call",
        add_sbbf, WORK, 0.01, 1, 1.8, N),
    ONE("blocks_add_large_call", ADDING "a call", "call", add_blocks, "SBBF call",
        add_sbbf, LARGE | WORK, 0.01, 1, 1.8, N),
    ONE("blocks_add_large_1024", "adding to blocks, 1,024 a call", "call", add_blocks,
        HAND ", prefetched", add_hand, LARGE | WORK, 0.01, 1024, 1.2, N),

    ONE("strings_small", STRING, "call", ask_string, "RocksDB's Bloom", ask_rocksdb, 0,
        0.01, 1, N, N),
    ONE("strings_large", STRING, "call", ask_string, "RocksDB's Bloom", ask_rocksdb,
        LARGE, 0.01, 1, 1, 1),
    ONE("strings_large_128", "128 strings a call", "call", ask_strings,
        "RocksDB's Bloom, 32 a call", ask_rocksdb_32, LARGE, 0.01, 1, 0.25, 0.25),
    ONE("strings_hash", "hashing strings of 16 to 40 bytes", "tamis_domain_hash()",
        hash_keys, "XXH3 inline", hash_xxh3, SAME | WORK, 0.01, 1, N, N),
    ONE("ribbon_small", STRING, "ribbon", ask_string, "RocksDB's Ribbon", ask_rocksdb,
        RIBBON, 0.01, 1, N, 0.75),
    ONE("ribbon_large", STRING, "ribbon", ask_string, "RocksDB's Ribbon", ask_rocksdb,
        LARGE | RIBBON, 0.01, 1, N, 0.75),
    F(room_filters, "ribbon_bits", "bits a key", "ribbon", "RocksDB's Ribbon", "", N,
      N),

    F(room_shapes, "shapes_one", "one of many segments, a key a call", "snapshot",
      "its filter", "ns", 1.3, 1.3),
    F(room_shapes, "shapes_ways", "one query, the worst pair of ways", "way", "limit",
      "ns", 1, N),
    F(room_shapes, "shapes_loads", "the same beside bare loads", "way", "limit", "ns",
      1, N),

    F(room_adding, "add_small", "adding, one a call", "writer", HAND, "ns", 1.4, N),
    F(room_adding, "add_large", "adding, one a call", "writer", HAND, "ns", 1.2, N),
    F(room_adding, "add_large_1000", "adding, 1,000 a call", "writer",
      HAND ", prefetched", "ns", N, N),
    F(room_growing, "growing_loads", "many stages, a key a call", "call",
      "bare loads of a line each", "ns", 1.2, 1.2),
    F(room_growing, "growing_loads_4", "many stages, 4 keys a call", "call",
      "bare loads of a line each", "ns", 1.1, 1.1),
    F(room_growing, "growing_add", "adding to many stages, one a call", "writer",
      "the last stage by hand", "ns", N, N),

    F(room_lists, "list_single", "a list, a key a call", "call", "Elias-Fano inline",
      "ns", N, 2.3),
    F(room_lists, "list_bits", "bits a hash", "list", "Elias-Fano", "", N, N),
    F(room_merging, "list_merge", "two lists merged, a hash", "tamis_list_merge()",
      "std::merge() in memory", "ns", N, N),

    F(room_files, "file_build", "hashes to a durable file", "builder",
      "memcpy, write and fsync", "ms", N, N),
    F(room_files, "file_first", "first answer, in the page cache", "open and probe",
      "open, read a page, map", "us", N, N),
    F(room_files, "file_check_cold", "every page checked, from the disk", "open",
      "read and XXH3", "ms", N, N),
    F(room_commits, "file_commit", "a commit", "writer", "fdatasync of as many pages",
      "ms", N, N),

    LAW("law_commit_steps", "commit of one put"),
    LAW("law_snapshot_steps", "snapshot after a put"),
    LAW("law_open_steps", "open"),
    LAW("law_first_steps", "first snapshot after an open"),
    LAW("law_find_steps", "find of a name"),
    F(room_laws, "law_probe", "tamis probe KEY, a process", MANY, FEW, "us", 1.5, N),
    F(room_laws, "law_memory", "private memory after 10,000 keys and a list of all",
      "a process", "limit", "MB", 1, N),
    F(room_laws, "law_pack_memory", "private memory while a pack is made",
      "of keys, or of packs", "64 bytes a column", "MB", 1, N),
    F(room_law_edits, "law_edits", "an edit, packed now and then, processor's time",
      "all edits", "first half", "us", 1.2, N),
    F(room_law_edits, "law_edits_user", "the same, user time", "all edits", "limit",
      "us", 1, N),
    F(room_law_edits, "law_edits_system", "the same without packing, system time",
      "an edit", "its system calls by hand", "us", 1.3, N),
    F(room_law_edits, "law_edits_written", "what these packings write", "all of them",
      "what packs hold", "MB", 4, N),
    F(room_law_edits, "law_edits_space", "space of filters then", "after the last one",
      "after a full repack", "MB", 1.7, N),
    F(room_law_syncs, "law_syncs", "a new segment, on a disk", "syncs", "limit", "", 1,
      N),
};
const size_t n_figures = sizeof figures / sizeof figures[0];
