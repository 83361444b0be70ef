/* The table of all options: an option has the same name, type, range and message in
 * every command. A row is
 *
 *     X(ID, name, letter, type, field, value, range, help)
 *
 * OPT_ID is its number, `field` the place in struct options that parse_options() fills,
 * `value` the placeholder of its value in help texts, NULL if it takes none, `range`
 * the limits of a number. `help` is the text of a command that has none of its own. */
#ifndef TAMIS_OPTION_TABLE_H
#define TAMIS_OPTION_TABLE_H

#define MAX_JOBS 256
/* clang-format off */
#define REALS(low, high) {.real = {low, high}}
#define NUMBERS(low, high) {.whole = {low, high}}
#define NO_RANGE {.whole = {0}}

#define OPTION_TABLE(X) \
X(NUL, "null", '0', FORMAT, format, NULL, NUMBERS(KEYS_NUL, 0), \
  "form of the KEYFILE: 'tamis help keys'") \
X(HEX, "hex", 0, FORMAT, format, NULL, NUMBERS(KEYS_HEX, 0), NULL) \
X(BINARY, "binary", 0, FORMAT, format, NULL, NUMBERS(KEYS_BINARY, 0), NULL) \
X(QUIET, "quiet", 'q', FLAG, given, NULL, NO_RANGE, "print no closing line") \
X(JSON, "json", 0, FLAG, given, NULL, NO_RANGE, "output for programs: 'tamis help json'") \
X(FPR, "fpr", 0, REAL, growth.error, "P", REALS(1e-8, 0.5), \
  "error, 1e-8..0.5 or with %") \
X(FACTOR, "factor", 's', REAL, growth.factor, "S", REALS(1.25, 16), \
  "each stage holds S times the last, 1.25..16") \
X(TIGHTENING, "tightening", 'r', REAL, growth.tightening, "R", REALS(0.5, 0.95), \
  "... at R times its error, 0.5..0.95") \
X(FIRST, "n0", 0, COUNT, growth.first_capacity, "N", NUMBERS(1, UINT64_C(1) << 32), \
  "keys in the first stage, 1..4294967296, each 2 bytes or more; 64k is 64000") \
X(SEED, "seed", 0, SEED, seed, "HEX", NO_RANGE, "hash seed, 16 hex digits; default: random") \
X(WATERMARK, "watermark", 0, NUMBER, watermark, "N", NUMBERS(0, UINT64_MAX), \
  "your log position") \
X(MIN_WATERMARK, "min-watermark", 0, NUMBER, min_watermark, "N", NUMBERS(0, UINT64_MAX), \
  "a filter behind N answers BEHIND") \
X(BIND, "bind", 0, BINDING, binding, "HEX", NO_RANGE, \
  "1..64 bytes that identify the engine's own file") \
X(RANK, "rank", 0, SMALL, rank, "N", NUMBERS(0, UINT32_MAX), \
  "the engine's order, 0..4294967295, 0 first; default: 0") \
X(REPLACES, "replaces", 0, NAMES, replaces, "OLD", NO_RANGE, \
  "drop the segment OLD in the same edit; may be repeated") \
X(REPLACES_ALL, "replaces", 0, FLAG, given, NULL, NO_RANGE, \
  "drop the OLD segments in the same edit") \
X(SEGMENT, "segment", 0, NAMES, segments, "SEGMENT", NO_RANGE, \
  "name of the segment, kept in the file") \
X(BARE, "bare", 0, FLAG, given, NULL, NO_RANGE, \
  "register the segment without a filter: always a candidate") \
X(EACH, "each", 0, FLAG, given, NULL, NO_RANGE, \
  "build a segment for each KEYFILE, named by its base name") \
X(STRIP, "strip", 0, TEXT, strip, "SUFFIX", NO_RANGE, "remove SUFFIX from the names") \
X(JOBS, "jobs", 'j', SMALL, jobs, "N", NUMBERS(1, MAX_JOBS), \
  "use N threads, 1..256; default: one a processor") \
X(KEYS_FILE, "keys", 0, FILE, keys_file, "KEYFILE", NO_RANGE, \
  "ask for every key of a list") \
X(COUNT, "count", 0, FLAG, given, NULL, NO_RANGE, "print only the totals") \
X(AGAINST, "against", 0, FILE, against, "KEYFILE", NO_RANGE, \
  "look up every key of the list as well, in one segment") \
X(AGAINST_EACH, "against-each", 0, FLAG, given, NULL, NO_RANGE, \
  "the same for each KEYFILE, in the segment of its name") \
X(AGAINST_LIST, "against-list", 0, FLAG, given, NULL, NO_RANGE, \
  "look up every hash of the segments' own lists; it counts segments without a list " \
  "of whole hashes, which it cannot check") \
X(OFFSET, "offset", 0, PAGES, offset, "N", NUMBERS(0, INT64_MAX), \
  "the filter starts here in FILE, a multiple of 4096 (4K is 4096)") \
X(STORE, "store", 0, PATH, store, "STORE", NO_RANGE, \
  "hash as this store does: 'tamis attach' then takes it") \
X(N_KEYS, "keys", 0, COUNT, n_keys, "N", NUMBERS(0, UINT64_C(1) << 48), \
  "number of keys, as 10000000, 10M or 1e7: powers of 1000") \
X(BYTES, "bytes", 0, BYTES, n_bytes, "B", NUMBERS(0, UINT64_C(1) << 48), \
  "size of the bits, or of a store's files; 64M is 64 MiB") \
X(GROWTH, "growth", 0, FLAG, given, NULL, NO_RANGE, \
  "the stages of a growing filter, up to --keys") \
X(DRY_RUN, "dry-run", 'n', FLAG, given, NULL, NO_RANGE, \
  "say what it would do, and change nothing") \
X(CONFIRM, "confirm", 0, FLAG, given, NULL, NO_RANGE, NULL) \
X(UUID, "uuid", 0, UUID, uuid, "HEX", NO_RANGE, \
  "UUID of this store, if it has filters of several") \
X(RESIDENCY, "residency", 0, FLAG, given, NULL, NO_RANGE, \
  "also print the pages in memory: 'tamis help stat'") \
X(PROMETHEUS, "prometheus", 0, FLAG, given, NULL, NO_RANGE, NULL) \
X(CHECK, "check", 0, FLAG, given, NULL, NO_RANGE, \
  "ask the filter for every key: finds flipped bits") \
X(COLOR, "color", 0, COLOUR, given, NULL, NO_RANGE, NULL) \
X(WAIT, "wait", 0, WAIT, given, "SECONDS", REALS(0, 999999), NULL) \
X(SVG, "svg", 0, FILE, svg, "FILE", NO_RANGE, NULL) \
X(NAMES, "names", 0, FLAG, given, NULL, NO_RANGE, "print only the names") \
X(READS, "reads", 0, REAL, reads, "R", REALS(0, 1e9), NULL) \
X(SIZES, "sizes", 0, FILE, sizes, "FILE", NO_RANGE, NULL) \
X(LEVELS, "levels", 0, FLAG, given, NULL, NO_RANGE, NULL) \
X(RUNS, "runs", 0, FLAG, given, NULL, NO_RANGE, NULL) \
X(APPLY, "apply", 0, FLAG, given, NULL, NO_RANGE, \
  "shrink or, from lists, rebuild filters of STORE") \
X(BY, "by", 0, NUMBER, by, "F", NUMBERS(1, UINT64_C(1) << 32), \
  "in 1/F of the blocks; F divides those of each lane") \
X(PACK, "pack", 0, FLAG, given, NULL, NO_RANGE, \
  "with --each: into one pack, without a file for each") \
X(KIND, "kind", 0, KIND, kind, "KIND", NO_RANGE, \
  "bloom, or ribbon: 30% smaller, slower; no pack or union") \
X(AUTO, "auto", 0, FLAG, given, NULL, NO_RANGE, \
  "choose: what is loose, packs half dead, small packs") \
X(REPACK, "repack", 0, FLAG, given, NULL, NO_RANGE, \
  "take segments of other packs, too") \
X(EXPLAIN, "explain", 0, FLAG, given, NULL, NO_RANGE, NULL) \
X(FORCE, "force", 0, FLAG, given, NULL, NO_RANGE, NULL) \
X(LIST, "list", 0, NUMBER, list_bits, "BITS", NUMBERS(1, 64), NULL) \
X(FROM_LIST, "from-list", 0, FLAG, given, NULL, NO_RANGE, \
  "make SEGMENT's filter anew from its list; keeps its kind") \
X(EMPTY, "empty", 0, FLAG, given, NULL, NO_RANGE, "accept a list without keys")
/* clang-format on */

#endif
