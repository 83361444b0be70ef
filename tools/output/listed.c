/* tamis verify: the lists of segments. Is a list whole, and has the filter every hash
 * of it? */
#include "output.h"

int its_list_info(const struct tamis_snapshot *snapshot, size_t index, bool verify,
                  struct tamis_filter_info *info, struct tamis_diag *diag)
{
    struct tamis_verify report;
    struct tamis_filter *list;
    int err = tamis_snapshot_list(snapshot, index, &list, diag);
    *info = (struct tamis_filter_info){0};
    if (err == 0)
        err = tamis_filter_info(list, info, NULL);
    if (err == 0 && verify && info->hash_bits == 64)
        err = tamis_filter_verify(list, &report, NULL);
    tamis_filter_close(list);
    return err;
}

void json_put_list(json_t *o, const struct tamis_snapshot *snapshot, size_t index)
{
    struct tamis_filter_info info;
    if (its_list_info(snapshot, index, false, &info, NULL) != 0)
        return;
    json_put(o, "list",
             json_of("hashes", json_count(info.n_hashes), "hash_bits",
                     json_count(info.hash_bits), "bytes", json_count(info.file_bytes)));
}

void print_its_list(const struct tamis_snapshot *snapshot, size_t index)
{
    struct tamis_diag diag = {0};
    struct tamis_filter_info info;
    int err = its_list_info(snapshot, index, false, &info, &diag);
    if (err == 0)
        printf("  list        %s of %s, %llu bytes (%s), %.1f bits a hash\n",
               COUNTED(info.n_hashes, "hash"), COUNTED(info.hash_bits, "bit"),
               LLU(info.file_bytes), SIZE(info.file_bytes),
               info.n_hashes ? 8 * (double)info.file_bytes / (double)info.n_hashes : 0);
    else if (err != TAMIS_ERR_NO_SEGMENT)
        print_tinted(TINT_BAD, "  list        unusable: %s\n",
                     diag.what[0] ? diag.what : tamis_strerror(err));
}

int open_its_list(struct tamis_store *store, const struct tamis_snapshot *snapshot,
                  size_t index, struct tamis_filter **list, struct tamis_diag *diag)
{
    int err = tamis_snapshot_list(snapshot, index, list, diag);
    struct tamis_segment_info s;
    struct tamis_snapshot *fresh;
    size_t now;
    if (err == 0 || err == TAMIS_ERR_NO_SEGMENT ||
        tamis_snapshot_segment(snapshot, index, &s) != 0)
        return err;
    enum fate fate = segment_now(store, &s, &fresh, &now);
    if (now != SIZE_MAX)
        err = tamis_snapshot_list(fresh, now, list, diag);
    else if (fate == SEGMENT_DROPPED)
        err = TAMIS_ERR_NO_SEGMENT; /* any other error says nothing of the list: the
                                       first one does */
    tamis_snapshot_release(fresh);
    return err;
}

/* A list that opens may be damaged further on. So repair asks, which then makes the
 * filter. */
bool has_good_list(const struct tamis_snapshot *snapshot, size_t index)
{
    struct tamis_filter_info info;
    return its_list_info(snapshot, index, true, &info, NULL) == 0 &&
           info.hash_bits == 64;
}

const char *advice_from_list(const struct tamis_snapshot *snapshot, size_t index)
{
    struct tamis_segment_info info;
    if (tamis_snapshot_segment(snapshot, index, &info) != 0 ||
        info.state != TAMIS_SEGMENT_SEALED || !has_good_list(snapshot, index))
        return NULL;
    return "'tamis repair' makes it anew from its list";
}

int list_error(int err, const struct tamis_diag *diag, const char *store,
               struct name name, const char *advice)
{
    struct tamis_diag its = *diag;
    snprintf(its.what, sizeof(its.what), "its list: %.*s", (int)sizeof(its.what) - 16,
             diag->what[0] ? diag->what : tamis_strerror(err));
    return segment_error(err, &its, store, name, advice);
}

int verify_its_list(const struct opened_list *its, struct name name, const char *store,
                    json_t *lines)
{
    struct tamis_verify report = {0};
    struct tamis_diag diag = its->diag;
    char what[320];
    int err = its->err;
    if (err == TAMIS_ERR_NO_SEGMENT)
        return EXIT_DONE;
    if (err == 0)
        err = tamis_filter_verify(its->list, &report, &diag);
    if (err == 0)
        return EXIT_DONE;
    snprintf(what, sizeof(what), "its list: %s", diag.what);
    verify_line(lines, name,
                err == ENOENT              ? "lost"
                : err == TAMIS_ERR_DAMAGED ? "damaged"
                                           : "unreadable",
                diag.file, what, report.n_pages > 0 ? &report : NULL, advice_list(err));
    return list_error(err, &diag, store, name, advice_list(err));
}

static int refuse_cut(const char *store, struct name name, unsigned bits)
{
    return complain(EXIT_USAGE,
                    "%s: segment '%s': its list has %s of each hash, and a filter is "
                    "asked for all 64: check it with --against and its keys",
                    store, NAME(name.bytes, name.n_bytes), COUNTED(bits, "bit"));
}

/* An error of the list is told by verify_its_list(). */
int against_its_list(struct against *a, const struct opened_list *its, uint64_t tag,
                     struct name name, const struct options *o, batch_fn *probe,
                     void *ctx)
{
    bool named = o->n_args > 1;
    struct tamis_filter_info info;
    int err = its->err;
    if (err == TAMIS_ERR_NO_SEGMENT) {
        struct tamis_diag diag = its->diag;
        a->unlisted++;
        diag.file[0] = '\0'; /* The message names the store, not its filters/. */
        return named ? complain_error(err, &diag, o->args[0], "") : EXIT_DONE;
    }
    if (err == 0 && (err = tamis_filter_info(its->list, &info, NULL)) == 0 &&
        info.hash_bits < 64) {
        a->cut++;
        return named ? refuse_cut(o->args[0], name, info.hash_bits) : EXIT_DONE;
    }
    if (err != 0 || against_hashes(a, its->list, tag, name, probe, ctx) != 0)
        a->unread++;
    return EXIT_DONE;
}
