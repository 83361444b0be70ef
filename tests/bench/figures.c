/* Every line of what must hold as one named figure with its mark, in one table, so that
 * one that is not measured is noticed. */
#include "tests/bench/figures.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define F(id, what, ours, other, unit, bound, mark)                                    \
    {                                                                                  \
        id, what, ours, other, unit, bound, mark, NAN, NAN, NAN, "", true, false       \
    }

#define RIBBON(id, what, other, unit, mark)                                            \
    F(id, what, "ribbon", other, unit, MOST, mark)

struct figure figures[] = {
    F("small_batch_avx512", "small filter, negatives, batch", "batch",
      "inlined AVX-512 loop", "ns", MOST, 1.15),
    F("small_batch_scalar", "small filter, negatives, batch", "batch",
      "plain scalar loop", "ns", MOST, 0.9),
    F("small_single", "small filter, negatives, one at a time", "public call", "batch",
      "ns", MOST, 2),
    F("small_libbloom", "small filter, negatives, by hash", "batch", "libbloom", "ns",
      LEAST, 12),
    F("small_leveldb", "small filter, negatives, by hash", "batch", "LevelDB's policy",
      "ns", LEAST, 5),
    F("small_keys_libbloom", "small filter, negatives, hashing the keys", "keys",
      "libbloom", "ns", LEAST, 12),
    F("small_keys_leveldb", "small filter, negatives, hashing the keys", "keys",
      "LevelDB's policy", "ns", LEAST, 5),

    F("large_batch_1pct", "large filter, 1%, negatives", "batch", "random lines", "ns",
      MOST, 1.25),
    F("large_batch_01pct", "large filter, 0.1%, negatives", "batch", "random lines",
      "ns", MOST, 1.4),
    F("large_batch_001pct", "large filter, 0.01%, negatives", "batch", "random lines",
      "ns", MOST, 1.4),
    F("large_single", "large filter, 1%, negatives one at a time", "public call",
      "independent loads", "ns", MOST, 1.15),
    /* A processor's window is a number of instructions. This is how many loads fit
     * into it with a probe's instructions between two loads. Our own mark. */
    F("large_single_spaced", "the same, loads as far apart as those of probes",
      "public call", "loads", "ns", MOST, 1.25),
    F("large_positives_1pct", "large filter, 1%, positives", "batch", "random lines",
      "ns", MOST, NAN),
    F("large_positives_01pct", "large filter, 0.1%, positives", "batch", "random lines",
      "ns", MOST, NAN),
    F("large_positives_001pct", "large filter, 0.01%, positives", "batch",
      "random lines", "ns", MOST, NAN),

    F("inline_small_avx512", "inline probes, small filter, negatives",
      "inline, AVX-512", "loop by hand, AVX-512", "ns", MOST, 1.15),
    F("inline_small_avx2", "inline probes, small filter, negatives", "inline, AVX2",
      "loop by hand, AVX2", "ns", MOST, 1.15),
    F("inline_small_plain", "inline probes, small filter, negatives", "inline, plain C",
      "plain scalar loop", "ns", RECORDED, NAN),
    F("inline_small_call", "the same", "inline", "public call", "ns", RECORDED, NAN),
    F("inline_large_avx512", "inline probes, large filter, negatives",
      "inline, AVX-512", "independent loads", "ns", MOST, 1.2),
    F("inline_large_avx2", "inline probes, large filter, negatives", "inline, AVX2",
      "independent loads", "ns", MOST, 1.2),
    /* A window of instructions: a loop by hand gets no nearer to bare loads. Our own.
     */
    F("inline_hand_avx512", "the same", "inline, AVX-512", "loop by hand, AVX-512",
      "ns", MOST, 1.2),
    F("inline_hand_avx2", "the same", "inline, AVX2", "loop by hand, AVX2", "ns", MOST,
      1.2),
    F("inline_positives_avx512", "inline probes, large filter, positives",
      "inline, AVX-512", "independent loads", "ns", MOST, NAN),
    F("inline_positives_avx2", "inline probes, large filter, positives", "inline, AVX2",
      "independent loads", "ns", MOST, NAN),
    F("inline_segments_avx512", "one key, segments each by itself", "inline, AVX-512",
      "independent loads", "us", MOST, 1.3),
    F("inline_segments_avx2", "one key, segments each by itself", "inline, AVX2",
      "independent loads", "us", MOST, 1.3),

    F("few_small_4", "small filter, negatives, 4 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_small_8", "small filter, negatives, 8 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_small_16", "small filter, negatives, 16 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_small_32", "small filter, negatives, 32 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_large_4", "large filter, negatives, 4 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_large_8", "large filter, negatives, 8 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_large_16", "large filter, negatives, 16 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_large_32", "large filter, negatives, 32 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_inline_small_4", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_small_8", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_small_16", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_small_32", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_large_4", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_large_8", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_large_16", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_inline_large_32", "the same, inline", "inline", "two passes by hand", "ns",
      MOST, 1.25),

    F("few_keys_small_1x1", "small segments, 1 asked for a key a call", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_keys_small_1x4", "small segments, 1 asked for 4 keys a call", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_keys_small_1x32", "small segments, 1 asked for 32 keys a call",
      "public call", "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_small_4x4", "small segments, 4 asked for 4 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_small_8x8", "small segments, 8 asked for 8 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_small_16x1", "small segments, 16 asked for a key a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_small_16x32", "small segments, 16 asked for 32 keys a call",
      "public call", "two passes by hand", "ns", MOST, 1.25),
    F("few_list_small_1", "small segments, a list of 1", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_list_small_4", "small segments, a list of 4", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_list_small_8", "small segments, a list of 8", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_list_small_16", "small segments, a list of 16", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_large_1x1", "large segments, 1 asked for a key a call", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_keys_large_1x4", "large segments, 1 asked for 4 keys a call", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_keys_large_1x32", "large segments, 1 asked for 32 keys a call",
      "public call", "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_large_4x4", "large segments, 4 asked for 4 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_large_8x8", "large segments, 8 asked for 8 keys a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_large_16x1", "large segments, 16 asked for a key a call", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_keys_large_16x32", "large segments, 16 asked for 32 keys a call",
      "public call", "two passes by hand", "ns", MOST, 1.25),
    F("few_list_large_1", "large segments, a list of 1", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_list_large_4", "large segments, a list of 4", "public call",
      "two passes by hand", "ns", RECORDED, NAN),
    F("few_list_large_8", "large segments, a list of 8", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_list_large_16", "large segments, a list of 16", "public call",
      "two passes by hand", "ns", MOST, 1.25),
    F("few_all_1", "small segments, all 1", "public call", "two passes by hand", "ns",
      RECORDED, NAN),
    F("few_all_4", "small segments, all 4", "public call", "two passes by hand", "ns",
      RECORDED, NAN),
    F("few_all_8", "small segments, all 8", "public call", "two passes by hand", "ns",
      MOST, 1.25),
    F("few_all_16", "small segments, all 16", "public call", "two passes by hand", "ns",
      MOST, 1.25),

    F("blocks_inline", "blocks in memory, negatives", "inline", "inline, of a file",
      "ns", MOST, 1.2),
    F("blocks_call", "blocks in memory, negatives", "public call", "inline, of a file",
      "ns", RECORDED, NAN),
    F("blocks_add_inline", "adding to blocks in memory", "inline", "loop by hand", "ns",
      MOST, 1.5),
    F("blocks_add", "adding to blocks in memory", "public call", "loop by hand", "ns",
      MOST, 1.5),

    F("checked_batch", "everything checked, batch", "lazy", "none", "ns", MOST, 1.03),
    F("checked_single", "everything checked, one at a time", "lazy", "none", "ns", MOST,
      1.03),
    F("checking_total", "checking every page at first touch, in random order",
      "checking", "XXH3 of the pages", "ms", MOST, 1.3),
    F("checking_open_full", "checking every page while opening", "open, mode full",
      "XXH3 of the pages", "ms", MOST, 1.3),
    F("checking_single_p50", "a probe while pages are checked, median", "one probe", "",
      "ns", RECORDED, NAN),
    F("checking_single_p999", "a probe while pages are checked, 99.9th percentile",
      "one probe", "", "ns", RECORDED, NAN),

    F("growing_single", "growing filter of one stage, negatives one at a time",
      "growing", "sealed", "ns", MOST, 1.15),
    F("growing_batch", "growing filter of one stage, negatives in batches", "growing",
      "sealed", "ns", MOST, 1.15),
    F("growing_few", "growing filter of one stage, negatives, 8 keys a call", "growing",
      "sealed", "ns", MOST, 1.15),

    F("stages_loads", "ten stages, negatives one at a time", "ten stages", "ten loads",
      "ns", MOST, 1.2),
    F("stages_single", "ten stages, negatives one at a time", "ten stages", "one stage",
      "ns", MOST, 8),
    F("stages_batch", "ten stages, negatives in batches", "ten stages", "one stage",
      "ns", MOST, 8),

    F("segments_one_key", "one key, all segments", "all segments", "random lines", "us",
      MOST, 1.3),
    F("segments_candidates", "one key, all segments, as a list of candidates",
      "all segments", "random lines", "us", MOST, 1.3),
    /* Segments of one size have a key's lines at one offset of a page, in one set of
     * the first cache: more than lines at random cost the machine itself. Our own mark.
     */
    F("segments_own_lines", "the same, against the lines that the key has there",
      "all segments", "its lines", "us", MOST, 1.3),
    F("segments_many_keys", "many keys, all segments, a key", "all segments",
      "random lines", "us", MOST, 1.3),
    F("segments_changed", "one key, all segments, just after one was replaced",
      "after the edit", "before it", "us", MOST, 1.05),

    F("packs_loose", "one key, all columns of a pack", "packed", "the same, loose",
      "us", LEAST, 30),
    F("packs_rows", "the same, one key at a time, against its rows", "packed",
      "bare loads", "ns", MOST, 1.5),
    F("packs_rows_many", "the same, in batches", "packed", "bare loads, prefetched",
      "ns", MOST, 1.5),
    F("packs_lines", "cache lines of a key, a segment", "lines", "", "", MOST, 0.012),
    F("packs_packing", "packing", "tamis_edit_pack()", "read, write and fsync", "ms",
      MOST, 2),
    F("packs_threads", "packing, by a thread a processor", "all of them", "one thread",
      "ms", LEAST, 1.6),

    F("sizes_files", "1,000 segments of 50 to 50,000 keys, packed files", "bits a key",
      "", "", MOST, 13),
    F("sizes_keys", "the same, packed from keys", "bits a key", "", "", MOST, 12.5),
    F("sizes_lines", "cache lines of a key there", "packed files", "loose", "lines",
      LEAST, 8),
    F("sizes_small", "10,000 segments of 64 keys, packed files", "bits a key", "", "",
      MOST, 16.5),

    F("sizes_edit", "64 segments of 100,000 keys, built in one edit", "bits a key",
      "each planned alone", "bits a key", MOST, 0.985),
    F("sizes_edit_error", "their mean error, of 1%", "percent", "", "", MOST, 1),

    F("lists_bits_small", "bits a hash of a list, beyond 64 - log2(n)", "small list",
      "", "", MOST, 2.1),
    F("lists_bits_large", "the same", "large list", "", "", MOST, 2.1),
    F("lists_single", "a list, negatives one at a time", "list", "Bloom filter", "ns",
      MOST, 3),
    F("lists_batch", "the same in batches, against one at a time", "list",
      "Bloom filter", "ns", MOST, 3),
    F("lists_in_order", "a list read in order", "ns a hash", "", "", MOST, 6.66),

    F("turnover_writes", "packs written by --auto, in bytes", "written",
      "one pack of each batch that came in", "MiB", MOST, 4),
    F("turnover_space", "packs on the disk, the most at any time", "on the disk",
      "one pack of what lives", "MiB", MOST, 2),
    F("turnover_packs", "packs at any time", "at most", "at the end", "", RECORDED,
      NAN),
    F("turnover_lines", "cache lines of a key, at the end", "these packs",
      "one pack of what lives", "lines", RECORDED, NAN),
    F("turnover_edit", "an edit of one batch, median", "and pack --auto",
      "the edit alone", "ms", RECORDED, NAN),
    F("turnover_edit_p99", "the same, 99th percentile", "and pack --auto",
      "the edit alone", "ms", RECORDED, NAN),
    F("turnover_records", "an edit of 10,000 records without filters", "10,000 records",
      "one record", "ms", RECORDED, NAN),

    F("process_version", "one key, a process, many segments", "tamis probe",
      "tamis --version", "us", MOST, 3.2),
    F("process_grep", "the same", "tamis probe", "grep -lxF over the lists", "us",
      LEAST, 12),
    F("process_cold", "pages of packs that it reads when none is in memory", "pages",
      "", "", MOST, 20),
    F("process_columns", "pages of the tables of columns among them", "pages", "", "",
      MOST, 0),

    F("first_answer", "first answer, from the open call", "open and probe",
      "reading the file", "us", LEAST, 1000),
    /* Not quite the same: the digests of 4 GiB have three levels, each a page fault and
     * a hash, those of 1 MiB one. */
    F("first_answer_flat", "first answer, slowest size against the quickest",
      "slowest size", "quickest size", "us", MOST, 2),

    F("build_libbloom", "building from hashes, a key and thread", "two threads",
      "libbloom", "ns", LEAST, 3),
    F("build_leveldb", "building from hashes, a key and thread", "two threads",
      "LevelDB's policy", "ns", LEAST, 3),
    F("build_copy", "building from hashes, and writing the file", "two threads",
      "memcpy and pwrite", "ms", MOST, 4),

    RIBBON("ribbon_small_bits_1pct", "small ribbon, 1%", "log2(1/e)", "bits", 1.05),
    RIBBON("ribbon_small_bits_01pct", "small ribbon, 0.1%", "log2(1/e)", "bits", 1.04),
    RIBBON("ribbon_small_bits_001pct", "small ribbon, 0.01%", "log2(1/e)", "bits",
           1.04),
    RIBBON("ribbon_small_batch", "small ribbon, negatives, batch", "Bloom", "ns", 3),
    RIBBON("ribbon_small_single", "small ribbon, one at a time", "Bloom", "ns", 2.5),
    RIBBON("ribbon_large_bits_1pct", "large ribbon, 1%", "log2(1/e)", "bits", 1.05),
    RIBBON("ribbon_large_bits_01pct", "large ribbon, 0.1%", "log2(1/e)", "bits", 1.04),
    RIBBON("ribbon_large_bits_001pct", "large ribbon, 0.01%", "log2(1/e)", "bits",
           1.04),
    RIBBON("ribbon_large_batch", "large ribbon, negatives, batch", "Bloom", "ns", 2.2),
    RIBBON("ribbon_large_single", "large ribbon, one at a time", "Bloom", "ns", 2),
    RIBBON("ribbon_build", "building a ribbon, a key, one thread", "1 ns", "ns", 120),
    F("ribbon_threads", "the same", "two threads", "one", "ns", LEAST, 1.7),

    F("algebra_union", "union of two filters", "durable", "pread, pwrite and fsync",
      "ms", MOST, 1.5),
    F("algebra_intersection", "intersection of two filters", "durable",
      "pread, pwrite and fsync", "ms", MOST, 1.5),
    F("algebra_fold", "fold of a filter, by 2 if it can be", "durable",
      "pread, pwrite and fsync", "ms", MOST, 1.5),

    F("build_keys", "building from a file of keys, a key", "the command",
      "the library, from hashes", "ns", MOST, 2),

    F("add_single", "adding one key at a time", "add", "random lines, times lanes",
      "ns", MOST, 2),
    /* A locked instruction waits for all before it. Our own mark. */
    F("add_single_locked", "the same, against the locked instructions it takes", "add",
      "locked alone", "ns", MOST, 1.5),
    F("add_batch", "adding, a thousand keys a call", "add", "random lines, times lanes",
      "ns", MOST, 8),
    F("add_threads", "adding, keys a second", "two threads", "one thread", "ns", LEAST,
      1.6),
    F("alone_small", "adding one key at a time, small filter, by the only thread",
      "add", "loop by hand, no locks", "ns", MOST, 2),
    F("alone_large", "the same, large filter", "add", "loop by hand, no locks", "ns",
      MOST, 1.5),
    F("alone_batch", "the same, a thousand keys a call", "add",
      "loop by hand, no locks", "ns", RECORDED, NAN),
    F("alone_stages", "adding to the tenth stage, a thousand keys a call", "add",
      "lines of all stages", "ns", MOST, 1.5),
    F("alone_locked", "adding one key at a time, large filter", "the only thread",
      "any thread", "ns", RECORDED, NAN),
    F("commit_time", "a commit", "commit", "fdatasync of as many dirty pages", "ms",
      MOST, 1.2),
    F("commit_flushes", "flushes of a commit", "flushes", "", "", MOST, 2),
    F("commit_flushes_table", "flushes of a commit after growth", "flushes", "", "",
      MOST, 3),

    F("readers_pss", "16 readers, proportional set sizes",
      "grown by opening and asking", "the file and 16 MiB", "MiB", MOST, 1),

    F("instructions_single", "a negative, one at a time, AVX2", "instructions", "", "",
      RECORDED, NAN),
    F("instructions_batch", "a negative, in batches, AVX2", "instructions", "", "",
      RECORDED, NAN),
    F("instructions_batch_scalar", "a negative, in batches, scalar", "instructions", "",
      "", RECORDED, NAN),
    F("instructions_positive", "a positive, in batches, two lanes, AVX2",
      "instructions", "", "", RECORDED, NAN),
    F("instructions_segments", "one key, a segment of 100, AVX2", "instructions", "",
      "", RECORDED, NAN),
    F("instructions_few", "one key, a segment of 8, AVX2", "instructions", "", "",
      RECORDED, NAN),
    F("instructions_few_keys", "4 keys a call, a pair with one of 8 segments, AVX2",
      "instructions", "", "", RECORDED, NAN),
    F("instructions_add", "an add to a growing filter, AVX2", "instructions", "", "",
      RECORDED, NAN),
    F("instructions_alone", "the same, by the only thread, AVX2", "instructions", "",
      "", RECORDED, NAN),
    F("instructions_growing", "a negative of a growing filter, one at a time, AVX2",
      "instructions", "", "", RECORDED, NAN),
    F("instructions_build", "a key of a built filter, AVX2", "instructions", "", "",
      RECORDED, NAN),
};
const size_t n_figures = sizeof figures / sizeof figures[0];

struct limit limits[64];
size_t n_limits;
char wrongs[16][200];
static unsigned wrong_count;

static struct figure *find(const char *id)
{
    for (size_t i = 0; i < n_figures; i++)
        if (strcmp(figures[i].id, id) == 0)
            return &figures[i];
    give_up("no figure is called %s", id);
}

void figure(const char *id, double ours, double other, const char *format, ...)
{
    struct figure *f = find(id);
    va_list list;
    va_start(list, format);
    vsnprintf(f->detail, sizeof f->detail, format, list);
    va_end(list);
    f->ours = ours;
    f->other = *f->other_is ? other : NAN;
    f->value = !*f->other_is ? ours : f->bound == LEAST ? other / ours : ours / other;
    f->missing = !isfinite(f->value);
}

void figure_pairs(const char *id, const double *ours, const double *other, unsigned n)
{
    struct figure *f = find(id);
    double ratios[MAX_REPS];
    for (unsigned i = 0; i < n; i++)
        ratios[i] = f->bound == LEAST ? other[i] / ours[i] : ours[i] / other[i];
    f->value = median(ratios, n);
    f->pairs = true;
}

void figure_mark(const char *id, double mark)
{
    find(id)->mark = mark;
}

void figure_without(const char *id, const char *why)
{
    struct figure *f = find(id);
    snprintf(f->detail, sizeof f->detail, "%s", why);
    f->missing = false;
}

bool figure_met(const struct figure *f)
{
    return f->bound == LEAST ? f->value >= f->mark : f->value <= f->mark;
}

unsigned figures_missing(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < n_figures; i++)
        if (figures[i].missing) {
            say("not measured: %s\n", figures[i].id);
            n++;
        }
    return n;
}

void limit(const char *id, double value, const char *unit)
{
    if (n_limits < sizeof limits / sizeof limits[0])
        limits[n_limits++] = (struct limit){id, unit, value};
}

void wrong(const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say("WRONG: %s\n", text);
    if (wrong_count < sizeof wrongs / sizeof wrongs[0])
        memcpy(wrongs[wrong_count], text, sizeof text);
    wrong_count++;
}

unsigned n_wrong(void)
{
    return wrong_count;
}
