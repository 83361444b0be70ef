/* Reports of filters that are made from filters or lists: shared by `tamis union`,
 * `tamis file union`, the merges and their kin. */
#include "output.h"

int derive_error(int err, const struct tamis_diag *diag, const char *file)
{
    const char *advice = NULL;
    if (err == TAMIS_ERR_MISMATCH)
        advice = "build one anew with the --seed, or --store, of the other";
    else if (err == TAMIS_ERR_UNFIT)
        advice = ""; /* the library says what would do */
    return complain_error(err, diag, file, advice);
}

/* Does this segment's file have the name at the end of the path? */
static bool has_file(struct tamis_snapshot *snapshot, size_t segment, const char *path)
{
    struct tamis_segment_info s;
    if (tamis_snapshot_segment(snapshot, segment, &s) != 0)
        return false;
    size_t n = strlen(path), n_end = strlen(s.file);
    return n_end > 0 && n >= n_end && strcmp(path + n - n_end, s.file) == 0;
}

/* Which of the segments is meant. The columns of a pack have one file: then it is the
 * one that cannot be opened. SIZE_MAX: none can be told. */
static size_t find_source(const struct tamis_diag *diag,
                          struct tamis_snapshot *snapshot, const size_t *segments,
                          size_t n)
{
    struct tamis_filter *f;
    size_t found = SIZE_MAX, n_found = 0;
    for (size_t i = 0; i < n; i++)
        if (segments[i] != found && has_file(snapshot, segments[i], diag->file)) {
            n_found++;
            found = segments[i];
        }
    for (size_t i = 0; n_found > 1 && i < n; i++)
        if (has_file(snapshot, segments[i], diag->file)) {
            if (tamis_snapshot_filter(snapshot, segments[i], &f, NULL) != 0)
                return segments[i];
            tamis_filter_close(f);
        }
    return n_found == 1 ? found : SIZE_MAX;
}

/* Advice for a filter that an operation does not take: the library says what to build,
 * but it knows no lists. The caller frees it. NULL: none. */
static char *unfit_advice(struct tamis_snapshot *snapshot, size_t index,
                          const char *store, const struct tamis_segment_info *s)
{
    struct tamis_filter_info info;
    struct tamis_filter *f;
    bool dashed = ((const char *)s->name)[0] == '-';
    bool ribbon = tamis_snapshot_filter(snapshot, index, &f, NULL) == 0 &&
                  tamis_filter_info(f, &info, NULL) == 0 && info.stages[0].lanes == 0;
    tamis_filter_close(f);
    if (!ribbon || !has_good_list(snapshot, index))
        return NULL;
    char *store_word = path_word(store);
    char *word = shell_word(s->name, s->name_bytes);
    char *advice = memory_or_exit(malloc(strlen(store_word) + strlen(word) + 96));
    sprintf(advice,
            "its list makes one: tamis build %s%s%s --from-list --kind bloom%s%s",
            store_word, dashed ? "" : " ", dashed ? "" : word, dashed ? " -- " : "",
            dashed ? word : "");
    free(store_word);
    free(word);
    return advice;
}

int source_error(int err, const struct tamis_diag *diag,
                 struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                 const char *store)
{
    struct tamis_segment_info s;
    size_t found = find_source(diag, snapshot, segments, n);
    if (found != SIZE_MAX && tamis_snapshot_segment(snapshot, found, &s) == 0) {
        struct name name = {s.name, s.name_bytes};
        if (err != TAMIS_ERR_UNFIT)
            return segment_error(err, diag, store, name, NULL);
        char *advice = unfit_advice(snapshot, found, store, &s);
        err = segment_error(err, diag, store, name, advice ? advice : "");
        free(advice);
        return err;
    }
    if (err == TAMIS_ERR_NO_SEGMENT)
        return complain_error(err, diag, store, "name segments that have filters");
    return err == TAMIS_ERR_MISMATCH ? complain_error(err, diag, store, "")
                                     : derive_error(err, diag, store);
}

int print_derived(const struct options *o, const char *what, const char *name,
                  const struct tamis_derive_report *r)
{
    work_is_done();
    if (given(o, OPT_JSON))
        json_print(json_of(what, json_text(name), "stages", json_count(r->n_stages),
                           "keys", json_count(r->keys), "file_bytes",
                           json_count(r->file_bytes), "error", json_number(r->error),
                           "damaged", json_count(r->n_damaged)));
    else
        printf("%s: %s in %s, %s, error %s\n", PATH(name), COUNTED(r->keys, "key"),
               COUNTED(r->n_stages, "stage"), SIZE(r->file_bytes), PERCENT(r->error));
    if (!output_works())
        return EXIT_IO;
    if (r->n_damaged == 0)
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%s: %s of the sources counted as all ones: no key is lost; build "
                    "it anew from its keys to lower its error",
                    name, COUNTED(r->n_damaged, "damaged page"));
}

int print_merged(const struct options *o, const char *what, const char *name,
                 size_t n_lists, const struct tamis_merge_report *r)
{
    work_is_done();
    progress_clear();
    if (given(o, OPT_JSON))
        json_print(json_of(what, json_text(name), "lists", json_count(n_lists), "read",
                           json_count(r->n_read), "repeats", json_count(r->n_repeats),
                           "keys", json_count(r->n_hashes), "list_bytes",
                           json_count(r->file_bytes)));
    else
        printf("%s: %s of %s, %s, %s\n", PATH(name), COUNTED(r->n_hashes, "key"),
               COUNTED(n_lists, "list"), COUNTED(r->n_repeats, "repeat"),
               SIZE(r->file_bytes));
    return output_works() ? EXIT_DONE : EXIT_IO;
}
