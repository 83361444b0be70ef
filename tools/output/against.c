/* Does a filter have the keys of a file, or the hashes of a list? A key that is ABSENT
 * from the filter of its own segment is lost: the one thing that must never happen. */
#include "output.h"

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
    struct key_batch *batch;
    struct key_reader *reader;
    int got, status = keys_open(keyfile, o->format, NULL, &reader);
    if (status != EXIT_DONE)
        return status;
    batch = memory_or_exit(calloc(1, sizeof(*batch)));
    while ((got = keys_batch(reader, domain, batch)) > 0) {
        size_t n = probe(ctx, domain->tag, batch->hashes, batch->n, absent);
        for (size_t i = 0; n > 0 && i < batch->n; i++)
            if (absent[i / 64] >> i % 64 & 1)
                lost_key(a, &batch->keys[i], o->format, segment);
        a->keys += batch->n;
        progress_advance(batch->n, keys_position(reader) - position);
        position = keys_position(reader);
    }
    status = got < 0 ? keys_status(reader)
                     : check_empty(reader, given(o, OPT_EMPTY), "nothing was checked");
    a->segments += status == EXIT_DONE || keys_count(reader) > 0;
    batch_free(batch);
    keys_close(reader);
    return status;
}

/* ---- hashes ---- */

static void lost_hash(struct against *a, uint64_t hash, struct name segment)
{
    a->lost++;
    /* A key could be looked up; of a hash a program learns no more than the number. */
    if (a->list != NULL || a->listed++ >= MAX_LISTED)
        return;
    printf("lost\thash %016llx\t", LLU(hash));
    print_escaped(stdout, segment.bytes, segment.n_bytes);
    putchar('\n');
}

int against_hashes(struct against *a, struct tamis_filter *list, uint64_t tag,
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
            if (absent[i / 64] >> i % 64 & 1)
                lost_hash(a, hashes[i], segment);
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

static void put_sum(const struct against *a, json_t *root)
{
    json_t *o =
        json_of("keys", json_count(a->keys), "segments", json_count(a->segments),
                "lost", json_count(a->lost), "lost_keys", a->list);
    if (a->by_hash)
        json_add(o, "unlisted", json_count(a->unlisted), "cut", json_count(a->cut),
                 "unread", json_count(a->unread));
    json_put(root, "against", o);
}

static void print_sum(const struct against *a)
{
    if (a->lost > MAX_LISTED)
        printf("lost\t... and %llu more\n", LLU((a->lost - MAX_LISTED)));
    printf("checked %s in %s: %llu lost\n",
           COUNTED(a->keys, a->by_hash ? "hash" : "key"),
           COUNTED(a->segments, "segment"), LLU(a->lost));
    print_unchecked(a);
}

int against_end(struct against *a, const char *file, json_t *root)
{
    if (root != NULL)
        put_sum(a, root);
    if (a->by_hash && a->segments == 0)
        return complain(EXIT_NONE,
                        "%s: no segment has a list of whole hashes, so nothing was "
                        "checked: build with --list, or use --against",
                        file);
    if (root == NULL && a->segments > 0) /* else an error has said why */
        print_sum(a);
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
