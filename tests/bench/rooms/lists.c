/* Lists of hashes: against the code of Elias and Fano, and std::merge() of numbers in
 * memory. */
#include "tests/bench/peers/cxx.h"
#include "tests/bench/peers/peers.h"

/* Hashes of keys first .. first + n - 1, in a file and in memory. */
struct hashes {
    struct tamis_filter *list;
    uint64_t *sorted, n;
    char path[512];
};

static struct hashes hashes_in(const char *name, uint64_t first, uint64_t n)
{
    struct hashes h = {.n = n, .sorted = hashes_of(first, n)};
    struct tamis_builder *builder = builder_of(0, 0.01, 0, 64);
    struct tamis_diag diag = {0};
    snprintf(h.path, sizeof h.path, "%s", path_in(name));
    unlink(h.path);
    must(tamis_builder_add_hashes(builder, bench.domain.tag, h.sorted, n), NULL,
         "adding to a list");
    struct tamis_finish_options as = {.size = sizeof as, .list = 1};
    must(tamis_builder_finish(builder, h.path, &as, NULL, &diag), &diag, "finishing");
    tamis_builder_free(builder);
    sort_numbers(h.sorted, n);
    h.list = filter_open(h.path);
    return h;
}

static void hashes_free(struct hashes *h)
{
    tamis_filter_close(h->list);
    unlink(h->path);
    free(h->sorted);
}

/* ---- asking ---- */

static void asking(struct hashes *h)
{
    struct subject s = {.n_keys = h->n, .filter = h->list};
    struct source source = source_of(h->n, bench.sizes.small_piece);
    struct elias_fano *e = elias_fano_new(h->sorted, h->n);
    contest("list_single", (struct contest){.ours = {ask_call, &s, 1e-9},
                                            .peer = {ask_elias_fano, e, 1e-9},
                                            .source = &source,
                                            .same = true});
    figure_detail("list_single", "%.3g M hashes", (double)h->n / 1e6);
    struct tamis_filter_info info;
    must(tamis_filter_info(h->list, &info, NULL), NULL, "info");
    double ours = 8 * (double)info.file_bytes / (double)h->n;
    double other = (double)elias_fano_bits(e) / (double)h->n;
    figure_set("list_bits", 0, &ours, &other, 1);
    figure_detail("list_bits", "%.3g M hashes, whole files", (double)h->n / 1e6);
    elias_fano_free(e);
    source_free(&source);
}

/* ---- merging ---- */

struct merging {
    struct hashes *lists; /* two */
    uint64_t *out;
};

/* The processor's time for each hash that is read: the disk has no part. */
static double merge_lists(void *merging)
{
    const struct merging *m = merging;
    struct tamis_filter *lists[] = {m->lists[0].list, m->lists[1].list};
    struct tamis_merge_report report;
    struct tamis_diag diag = {0};
    const char *path = path_in("merged.tamis");
    unlink(path);
    uint64_t began = cpu_ns();
    must(tamis_list_merge(lists, 2, path, NULL, &report, &diag), &diag, "merging");
    uint64_t ns = cpu_ns() - began;
    unlink(path);
    size_t n = merge_numbers(m->lists[0].sorted, m->lists[0].n, m->lists[1].sorted,
                             m->lists[1].n, m->out);
    if (report.n_hashes != n)
        wrong("list_merge: %llu hashes, by std::merge() %zu",
              (unsigned long long)report.n_hashes, n);
    return (double)ns / (double)report.n_read;
}

static double merge_sorted(void *merging)
{
    const struct merging *m = merging;
    uint64_t began = now_ns();
    sink += merge_numbers(m->lists[0].sorted, m->lists[0].n, m->lists[1].sorted,
                          m->lists[1].n, m->out);
    return (double)(now_ns() - began) / (double)(m->lists[0].n + m->lists[1].n);
}

void room_lists(void)
{
    struct hashes h = hashes_in("list.tamis", 0, bench.sizes.list);
    asking(&h);
    hashes_free(&h);
}

void room_merging(void)
{
    uint64_t n = bench.sizes.list;
    /* A fifth of the keys of one is in the other. */
    struct hashes two[] = {hashes_in("one.tamis", 0, n / 2),
                           hashes_in("two.tamis", n / 2 - n / 10, n / 2)};
    struct merging m = {two, allocate(n * sizeof *m.out)};
    compare("list_merge", merge_lists, &m, merge_sorted, &m);
    figure_detail("list_merge", "two of %.3g M hashes, time of the processor",
                  (double)n / 2e6);
    free(m.out);
    hashes_free(&two[0]), hashes_free(&two[1]);
}
