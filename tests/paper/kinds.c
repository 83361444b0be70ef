/* Kinds of filters measured for some errors: bits, and time to build and to ask. All
 * are code of ours; textbook.c has the two that tamis does not have. Keys are numbers:
 * even ones are added, odd ones asked for. Times are medians of three. */
#include "tests/paper/kinds.h"
#include "tests/paper/series.h"

#include <time.h>

enum { LAPS = 3 };

const char *const kind_names[N_KINDS] = {"classic", "blocked", "lanes", "ribbon",
                                         "list"};

/* A filter of ours, or one of the textbook's. */
struct subject {
    struct textbook book;
    struct tamis_filter *filter;
    struct tamis_domain domain;
    double bits;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, LAPS, sizeof *samples, compare);
    return samples[LAPS / 2];
}

static uint64_t *hashes_of(const struct tamis_domain *d, uint64_t first, uint64_t n)
{
    uint64_t *hashes = malloc(n * sizeof *hashes);
    if (!hashes)
        exit(3);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = first + 2 * i;
        hashes[i] = tamis_key_of(d, &number, sizeof number).hash;
    }
    return hashes;
}

/* ---- made ---- */

/* The bits a key that the textbook's filters are made with. Some blocks of a blocked
 * one are too full (Putze, Sanders and Singler, section 3), so it gets more bits for a
 * small error. The error that it then has is measured. */
static double bits_for(enum kind_name kind, double error)
{
    double bits = -log2(error) / M_LN2;
    return kind == KIND_BLOCKED ? bits * (1 + 0.01 * bits) : bits;
}

/* A list of n hashes of w bits has the value of an absent one with chance n / 2^w. */
static uint64_t width_for(double error, uint64_t n)
{
    return (uint64_t)ceil(log2((double)n / error));
}

static void make_ours(struct subject *s, enum kind_name kind, double error,
                      const uint64_t *hashes, uint64_t n, const char *path)
{
    struct tamis_builder_options o = {
        .size = sizeof o,
        .domain = &s->domain,
        .error = error,
        .memory_limit = UINT64_C(1) << 30,
        .kind = kind == KIND_RIBBONS ? TAMIS_RIBBON : TAMIS_BLOOM,
        .list_bits = kind == KIND_LISTS ? width_for(error, n) : 0,
    };
    struct tamis_builder *b;
    must(tamis_builder_create(&o, &b, NULL), "builder");
    must(tamis_builder_add_hashes(b, s->domain.tag, hashes, n), "add");
    struct tamis_finish_options as = {.size = sizeof as, .list = kind == KIND_LISTS};
    must(tamis_builder_finish(b, path, &as, NULL, NULL), "finish");
    tamis_builder_free(b);
}

static void make_book(struct subject *s, enum kind_name kind, double error,
                      const uint64_t *hashes, uint64_t n)
{
    textbook_create(&s->book, kind == KIND_BLOCKED, bits_for(kind, error), n);
    for (uint64_t i = 0; i < n; i++)
        textbook_add(&s->book, hashes[i]);
    s->bits = (double)s->book.n_bits;
}

static void open_ours(struct subject *s, const char *path)
{
    struct tamis_filter_options o = {.size = sizeof o, .check = TAMIS_CHECK_FULL};
    struct tamis_filter_info info;
    must(tamis_filter_open(path, &o, &s->filter, NULL), "open");
    must(tamis_filter_info(s->filter, &info, NULL), "info");
    s->bits = (double)info.file_bytes * 8;
}

/* Made LAPS times; the last one stays. */
static double build(struct subject *s, enum kind_name kind, double error,
                    const uint64_t *hashes, uint64_t n)
{
    const char *tmp = getenv("TMPDIR");
    char path[4096], file[sizeof path + 8];
    double ns[LAPS];
    bool ours = kind >= KIND_LANES;
    snprintf(path, sizeof path, "%s/tamis-paper.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(path)) {
        fprintf(stderr, "paper: %s: cannot make a directory\n", path);
        exit(3);
    }
    snprintf(file, sizeof file, "%s/f", path);
    for (int i = 0; i < LAPS; i++) {
        if (i > 0)
            textbook_free(&s->book);
        unlink(file);
        double began = now();
        if (ours)
            make_ours(s, kind, error, hashes, n, file);
        else
            make_book(s, kind, error, hashes, n);
        ns[i] = (now() - began) / (double)n;
    }
    if (ours)
        open_ours(s, file);
    unlink(file);
    rmdir(path);
    return median(ns);
}

/* ---- asked ---- */

/* One key at a time. */
static uint64_t count_absent(struct subject *s, const uint64_t *hashes, uint64_t n)
{
    uint64_t n_absent = 0;
    struct tamis_key key = {.tag = s->domain.tag};
    for (uint64_t i = 0; i < n; i++) {
        key.hash = hashes[i];
        n_absent += s->filter
                        ? tamis_filter_probe(s->filter, &key, NULL) == TAMIS_ABSENT
                        : !textbook_has(&s->book, hashes[i]);
    }
    return n_absent;
}

void measure_kind(enum kind_name kind, double error, uint64_t n, struct kind_point *out)
{
    struct subject s = {0};
    double ns[LAPS];
    must(tamis_domain_init(&s.domain, 1, 1), "domain");
    uint64_t n_asked = 4 * n;
    uint64_t *keys = hashes_of(&s.domain, 0, n),
             *others = hashes_of(&s.domain, 1, n_asked);
    *out = (struct kind_point){.asked = error};
    out->build_ns = build(&s, kind, error, keys, n);
    out->bits_per_key = s.bits / (double)n;
    out->lost = count_absent(&s, keys, n);
    for (int i = 0; i < LAPS; i++) {
        double began = now();
        out->error = 1 - (double)count_absent(&s, others, n_asked) / (double)n_asked;
        ns[i] = (now() - began) / (double)n_asked;
    }
    out->probe_ns = median(ns);
    free(keys), free(others);
    textbook_free(&s.book);
    tamis_filter_close(s.filter);
}

int paper_kinds(const char *dir)
{
    enum { N_KEYS = 1 << 19 };
    static const double errors[] = {0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001};
    FILE *f = csv_create(dir, "kinds", "kind,asked,error,bits,bound,build_ns,probe_ns");
    for (int kind = 0; kind < N_KINDS; kind++)
        for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
            struct kind_point p;
            measure_kind((enum kind_name)kind, errors[i], N_KEYS, &p);
            fprintf(f, "%s,%g,%.6g,%.3f,%.3f,%.1f,%.2f\n", kind_names[kind], p.asked,
                    p.error, p.bits_per_key, -log2(p.error), p.build_ns, p.probe_ns);
        }
    csv_close(f);
    return 0;
}
