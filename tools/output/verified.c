/* Is a filter whole, and its segment's list, and has it the keys of a file, or the
 * hashes of its list? A key that is ABSENT from the filter of its own segment is lost:
 * the one thing that must never happen. */
#include "output.h"

void verify_line(json_t *list, struct name segment, const char *result,
                 const char *file, const char *what, const struct tamis_verify *report,
                 const char *advice)
{
    progress_wipe();
    if (list == NULL) {
        print_escaped(stdout, segment.bytes, segment.n_bytes); /* or a path */
        putchar('\t');
        print_tinted(strcmp(result, "ok") == 0     ? TINT_GOOD
                     : strcmp(result, "bare") == 0 ? TINT_DOUBT
                                                   : TINT_BAD,
                     "%s", result);
        printf("%s%s%s%s\n", what != NULL || advice != NULL ? "\t" : "",
               what != NULL ? what : "", advice != NULL ? "\t" : "",
               advice != NULL ? advice : "");
        return;
    }
    json_t *o = json_of("segment", json_escaped(segment.bytes, segment.n_bytes),
                        "result", json_string(result), "file", json_text(file));
    if (what != NULL)
        json_put(o, "what", json_text(what));
    if (advice != NULL)
        json_put(o, "advice", json_string(advice));
    if (report != NULL) {
        json_add(o, "pages", json_count(report->n_pages), "damaged",
                 json_count(report->n_damaged));
        if (report->n_damaged > 0)
            json_put(o, "first_damaged", json_count(report->first_damaged));
        json_put(o, "stale_slots", json_count(report->n_stale_slots));
    }
    json_put(list, NULL, o);
}

int verify_one(struct tamis_filter *filter, struct name segment, const char *file,
               advice_fn *advise, const void *ctx, json_t *list)
{
    const char *advice = NULL;
    struct tamis_verify report = {0};
    struct tamis_diag diag = {0};
    char what[128];
    int err = tamis_filter_verify(filter, &report, &diag);
    if (report.n_damaged > 0) {
        snprintf(what, sizeof(what), "%llu of %s, the first at offset %llu",
                 LLU(report.n_damaged), COUNTED(report.n_pages, "page"),
                 LLU(report.first_damaged));
    } else if (err != 0) {
        snprintf(what, sizeof(what), "%.100s",
                 diag.what[0] ? diag.what : tamis_strerror(err));
        if (report.n_stale_slots > 0)
            advice = advise != NULL
                         ? "the other one serves, and 'tamis repair' mends it"
                         : "the other one serves";
    } else {
        snprintf(what, sizeof(what), "%s", COUNTED(report.n_pages, "page"));
    }
    if (err != 0 && advice == NULL && advise != NULL)
        advice = advise(ctx, err);
    if (err != 0 && advice == NULL)
        advice = usual_advice(err);
    verify_line(list, segment,
                err == 0  ? "ok"
                : err > 0 ? "unreadable"
                          : "damaged",
                file, what, &report, advice);
    if (err != 0)
        complain_error(err, &diag, file, advice);
    return status_of_error(err);
}

/* ---- keys ---- */

enum { MAX_LISTED = 10 };

static void lost_key(struct against *a, const struct tamis_key *key,
                     enum key_format format, struct name segment)
{
    a->lost++;
    if (a->listed++ >= MAX_LISTED)
        return;
    if (a->list == NULL) {
        fputs("lost\t", stdout);
        print_key(key, format);
        putchar('\t');
        print_escaped(stdout, segment.bytes, segment.n_bytes);
        putchar('\n');
        return;
    }
    json_t *o = json_of("segment", json_escaped(segment.bytes, segment.n_bytes));
    json_put_key(o, key, format);
    json_put(a->list, NULL, o);
}

size_t probe_filter(void *filter, uint64_t tag, const uint64_t *hashes, size_t n,
                    uint64_t *absent)
{
    return tamis_filter_probe_batch(filter, tag, hashes, n, absent, NULL);
}

int against_list(struct against *a, const char *keyfile, const struct options *o,
                 const struct tamis_domain *domain, struct name segment,
                 batch_fn *probe, void *ctx)
{
    uint64_t absent[BATCH_KEYS / 64], position = 0;
    struct key_batch batch;
    struct key_reader *reader;
    int got, status = keys_open(keyfile, o->format, NULL, &reader);
    if (status != EXIT_DONE)
        return status;
    while ((got = keys_batch(reader, domain, &batch)) > 0) {
        size_t n = probe(ctx, domain->tag, batch.hashes, batch.n, absent);
        for (size_t i = 0; n > 0 && i < batch.n; i++)
            if (absent[i / 64] >> i % 64 & 1)
                lost_key(a, &batch.keys[i], o->format, segment);
        a->keys += batch.n;
        progress_advance(batch.n, keys_position(reader) - position);
        position = keys_position(reader);
    }
    status = got < 0 ? keys_status(reader)
                     : check_empty(reader, given(o, OPT_EMPTY), "nothing was checked");
    a->segments += status == EXIT_DONE || keys_count(reader) > 0;
    keys_close(reader);
    return status;
}

/* ---- hashes ---- */

/* As against_list(), for a list of hashes. Returns an errno or a public code: an error
 * of the list's pages ends it. */
static int against_hashes(struct against *a, struct tamis_filter *list, uint64_t tag,
                          struct name segment, batch_fn *probe, void *ctx)
{
    enum { AT_ONCE = 4096 };
    struct tamis_list_cursor *cursor;
    uint64_t hashes[AT_ONCE], absent[AT_ONCE / 64];
    size_t n = 0;
    int err = tamis_list_cursor_create(list, &cursor, NULL);
    if (err != 0)
        return err;
    while ((err = tamis_list_cursor_next(cursor, hashes, AT_ONCE, &n, NULL)) == 0 &&
           n > 0) {
        size_t lost = probe(ctx, tag, hashes, n, absent);
        a->keys += n;
        for (size_t i = 0; lost > 0 && i < n; i++)
            if (absent[i / 64] >> i % 64 & 1) {
                a->lost++;
                /* A key could be looked up; of a hash a program learns no more than
                 * the number. */
                if (a->list == NULL && a->listed++ < MAX_LISTED)
                    printf("lost\thash %016llx\t%s\n", LLU(hashes[i]),
                           NAME_OR(segment.bytes, segment.n_bytes));
            }
    }
    a->segments += err == 0;
    tamis_list_cursor_free(cursor);
    return err;
}

/* ---- the sum ---- */

static void print_unchecked(const struct against *a)
{
    const struct {
        uint64_t n;
        const char *why;
    } counts[] = {{a->unlisted, "without a list"},
                  {a->cut, "with a list of cut hashes"},
                  {a->unread, "with a list that cannot be read"}};
    uint64_t n = a->unlisted + a->cut + a->unread;
    const char *before = ": ";
    if (n == 0)
        return;
    printf("not checked: %s", COUNTED(n, "segment"));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i].n > 0) {
            printf("%s%llu %s", before, LLU(counts[i]).n, counts[i].why);
            before = ", ";
        }
    putchar('\n');
}

int against_end(struct against *a, const char *file, json_t *root)
{
    if (root != NULL) {
        json_t *o =
            json_of("keys", json_count(a->keys), "segments", json_count(a->segments),
                    "lost", json_count(a->lost), "lost_keys", a->list);
        if (a->by_hash)
            json_add(o, "unlisted", json_count(a->unlisted), "cut", json_count(a->cut),
                     "unread", json_count(a->unread));
        json_put(root, "against", o);
    }
    if (a->by_hash && a->segments == 0)
        return complain(EXIT_NONE,
                        "%s: no segment has a list of whole hashes, so nothing was "
                        "checked: build with --list, or use --against",
                        file);
    if (root == NULL && a->segments > 0) { /* else an error has said why */
        if (a->lost > MAX_LISTED)
            printf("lost\t... and %llu more\n", LLU((a->lost - MAX_LISTED)));
        printf("checked %s in %s: %llu lost\n",
               COUNTED(a->keys, a->by_hash ? "hash" : "key"),
               COUNTED(a->segments, "segment"), LLU(a->lost));
        print_unchecked(a);
    }
    if (a->lost == 0)
        return EXIT_DONE;
    if (a->by_hash)
        return complain(EXIT_DAMAGE,
                        "%s: %llu of the lists' hashes %s not in the filters: 'tamis "
                        "repair' makes these anew from the lists",
                        file, LLU(a->lost), a->lost == 1 ? "is" : "are");
    return complain(EXIT_DAMAGE,
                    "%s: %s not in the filters of their segments: check that the key "
                    "lists are theirs, or build the segments anew",
                    file, COUNTED(a->lost, "key"));
}

/* ---- the lists of segments ---- */

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
        return named ? complain(EXIT_USAGE,
                                "%s: segment '%s': its list has %s of each hash, and a "
                                "filter is asked for all 64: check it with --against "
                                "and its keys",
                                o->args[0], NAME(name.bytes, name.n_bytes),
                                COUNTED(info.hash_bits, "bit"))
                     : EXIT_DONE;
    }
    if (err != 0 || against_hashes(a, its->list, tag, name, probe, ctx) != 0)
        a->unread++;
    return EXIT_DONE;
}
