/* Prints how much of a filter is in memory, for people and for programs. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

/* mincore(2) reports every page as in memory if the caller neither owns the file nor
 * may write to it. Such a report is ignored. */
static bool kernel_tells(const char *file)
{
    struct stat st;
    return (stat(file, &st) == 0 && st.st_uid == geteuid()) ||
           faccessat(AT_FDCWD, file, W_OK, AT_EACCESS) == 0;
}

static unsigned long page_bytes(void)
{
    return (unsigned long)sysconf(_SC_PAGESIZE);
}

static void put_counts(json_t *o, const struct tamis_residency *r, bool told)
{
    json_put(o, "pages", json_count(r->n_pages));
    if (told)
        json_put(o, "resident", json_count(r->n_resident));
}

/* Pages in memory; "?" if the kernel does not tell. */
static const char *resident_text(char text[TEXT_BYTES], const struct tamis_residency *r,
                                 bool told)
{
    snprintf(text, TEXT_BYTES, "%llu", LLU(r->n_resident));
    return told ? text : "?";
}

static void print_counts(const struct tamis_residency *r, bool told)
{
    char percent[TEXT_BYTES] = "?", resident[TEXT_BYTES];
    if (told && r->n_pages > 0)
        snprintf(percent, sizeof(percent), "%.1f%%",
                 100 * (double)r->n_resident / (double)r->n_pages);
    printf("%12s %12llu %7s  ", resident_text(resident, r, told), LLU(r->n_pages),
           percent);
}

/* All segments so far. */
struct sum {
    struct tamis_residency all;
    bool told; /* of each */
    json_t *list;
};

/* The filter does not open. Another process may have dropped the segment meanwhile, or
 * moves it all the time. */
static int no_count(struct sum *sum, struct tamis_store *store,
                    const struct tamis_segment_info *s, int err,
                    const struct tamis_diag *diag, const char *path)
{
    const char *what = diag->what[0] ? diag->what : tamis_strerror(err);
    enum fate fate = segment_fate(store, s);
    if (fate != SEGMENT_STAYS)
        return fate == SEGMENT_DROPPED
                   ? EXIT_DONE
                   : complain_error(err, diag, path, "run it again");
    if (sum->list != NULL) {
        json_put(sum->list, NULL,
                 json_of("segment", json_escaped(s->name, s->name_bytes), "what",
                         json_text(what)));
    } else {
        printf("%12s %12s %7s  %s: %s\n", "-", "-", "-",
               NAME_OR(s->name, s->name_bytes), PATH(what));
    }
    return complain_error(err, diag, path, NULL);
}

static void add_counts(struct sum *sum, const struct tamis_residency *r,
                       const char *store, const char *file, const char *what,
                       struct name name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", store, file);
    bool told = kernel_tells(path);
    sum->all.n_pages += r->n_pages;
    sum->all.n_resident += r->n_resident;
    sum->told = sum->told && told;
    if (sum->list != NULL) {
        json_t *o = json_of(what, json_escaped(name.bytes, name.n_bytes));
        put_counts(o, r, told);
        json_put(sum->list, NULL, o);
        return;
    }
    print_counts(r, told);
    printf("%s%s\n", strcmp(what, "segment") != 0 ? "pack " : "",
           NAME_OR(name.bytes, name.n_bytes));
}

static int add_one(struct sum *sum, struct tamis_store *store,
                   struct tamis_snapshot *snapshot, size_t i, const char *path)
{
    struct tamis_residency r;
    struct tamis_segment_info s;
    struct tamis_filter *filter;
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_segment(snapshot, i, &s);
    if (err != 0 || s.state == TAMIS_SEGMENT_BARE || is_column(snapshot, i, NULL))
        return err ? complain_error(err, NULL, path, NULL) : EXIT_DONE;
    err = tamis_snapshot_filter(snapshot, i, &filter, &diag);
    if (err == 0)
        err = tamis_filter_residency(filter, &r, &diag);
    tamis_filter_close(filter);
    if (err != 0)
        return no_count(sum, store, &s, err, &diag, path);
    add_counts(sum, &r, path, s.file, "segment", (struct name){s.name, s.name_bytes});
    return EXIT_DONE;
}

/* The packs of these segments, each once. */
static int add_packs(struct sum *sum, struct tamis_snapshot *snapshot, const char *path,
                     const size_t *segments, size_t n_segments)
{
    struct tamis_residency r;
    struct tamis_filter *filter;
    size_t n;
    struct pack *packs = packs_list(snapshot, path, &n);
    int status = EXIT_DONE;
    for (size_t i = 0; i < n; i++) {
        bool named = false;
        for (size_t at = 0, k;
             !named && next_picked(snapshot, segments, n_segments, &at, &k);)
            named = tamis_snapshot_pack(snapshot, k, &filter, NULL, NULL) == 0 &&
                    filter == packs[i].filter;
        int err = named ? tamis_filter_residency(packs[i].filter, &r, NULL) : 0;
        if (err != 0)
            status = complain_errno(err, path, "asking which pages are in memory");
        else if (named)
            add_counts(sum, &r, path, packs[i].file, "pack",
                       name_of_text(packs[i].name));
    }
    free(packs);
    return status;
}

int segments_residency(struct tamis_store *store, struct tamis_snapshot *snapshot,
                       const char *path, const size_t *segments, size_t n, json_t *root)
{
    struct sum sum = {.told = true};
    int status = EXIT_DONE;
    if (root != NULL)
        sum.list = memory_or_exit(json_array());
    else
        printf("\n%12s %12s %7s  (pages of %lu bytes)\n", "in memory", "of pages", "",
               page_bytes());
    for (size_t at = 0, i; next_picked(snapshot, segments, n, &at, &i);)
        status = first_failure(status, add_one(&sum, store, snapshot, i, path));
    status = first_failure(status, add_packs(&sum, snapshot, path, segments, n));
    if (root != NULL) {
        json_put(root, "page_bytes", json_count(page_bytes()));
        put_counts(root, &sum.all, sum.told);
        json_put(root, "residency", sum.list);
    } else {
        print_counts(&sum.all, sum.told);
        printf("in all\n");
    }
    return status;
}

int file_residency(const struct options *o, json_t *root)
{
    char resident[TEXT_BYTES];
    struct tamis_residency r;
    struct tamis_filter *filter;
    bool told = kernel_tells(o->args[0]);
    int status = file_open(o, &filter), err;
    if (status != EXIT_DONE)
        return status;
    err = tamis_filter_residency(filter, &r, NULL);
    tamis_filter_close(filter);
    if (err != 0)
        return complain_errno(err, o->args[0], "asking which pages are in memory");
    if (root != NULL) {
        json_put(root, "page_bytes", json_count(page_bytes()));
        put_counts(root, &r, told);
        return EXIT_DONE;
    }
    printf("in memory: %s of %llu pages of %lu bytes\n",
           resident_text(resident, &r, told), LLU(r.n_pages), page_bytes());
    return EXIT_DONE;
}
