/* An LSM tree with its filters in a tamis store, for an engine that has a list of its
 * segments of its own, the manifest. After a crash two lists may differ. So:
 *
 *   a new segment   its filter is put before the manifest names it
 *   an old one      its filter is dropped after the manifest has ceased to name it
 *   at the start    what the manifest does not name is dropped, what lacks one gets one
 *   always          found by name and binding: after a crash a name is used again
 *   a compaction    drops no key: its filter comes from the lists of its two inputs
 *
 * Kill it at any moment and run it again: no key is lost, and the lists are the same.
 * (Where the store's own list is the manifest, one edit puts and drops, and that is
 * all.)
 *
 *   cc -Ilib lsm_store.c build/libtamis.a -llmdb -lxxhash -lm -pthread
 *   ./a.out [DIRECTORY]     a named directory stays, and the next run goes on there */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <tamis.h>

enum { BATCH = 20000, MOST_SEGMENTS = 5, N_ABSENT = 200000 };

struct record {
    uint64_t key, dead; /* the key first, for by_key(); dead 1: a tombstone */
};
static struct tree { /* on the disk: the manifest; the oldest segment is the first */
    uint64_t n_batches, n_files, n;
    struct segment {
        char name[24];
        uint8_t id[16]; /* the binding: random */
        uint64_t n;
        struct record *records; /* this and what follows is made anew at each start */
        int lacks_filter, is_merged; /* from the two before it */
    } segments[MOST_SEGMENTS + 1];
} tree;
static struct tamis_store *store;
static struct tamis_snapshot *now;
static struct tamis_target targets[MOST_SEGMENTS + 1]; /* in it, for each segment */
static int here, n_read, n_merged; /* reads done; filters made without keys */

_Noreturn static void fail(const char *what, int error)
{
    fprintf(stderr, "lsm_store: %s: %s\n", what, tamis_strerror(error));
    exit(2);
}

static void map_segment(struct segment *s)
{
    int fd = open(s->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (s->records = mmap(NULL, s->n * sizeof(struct record), PROT_READ,
                                     MAP_SHARED, fd, 0)) == MAP_FAILED)
        fail(s->name, errno);
    close(fd);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || fsync(fd) || close(fd))
        fail(name, errno);
}

/* Finds each segment in the store; returns in how many the two lists differ. A target
 * that is not found, or has another binding, answers MAYBE. */
static unsigned find_filters(struct tree *list)
{
    unsigned n_found = 0;
    tamis_snapshot_release(now);
    if (tamis_snapshot_current(store, &now, NULL))
        fprintf(stderr, "lsm_store: all segments are read\n");
    for (struct segment *s = list->segments; s < list->segments + list->n; s++) {
        s->lacks_filter = tamis_snapshot_find(now, s->name, strlen(s->name), s->id, 16,
                                              0, &targets[s - list->segments]);
        n_found += !s->lacks_filter;
    }
    return (unsigned)(list->n + tamis_snapshot_info(now).n_segments) - 2 * n_found;
}

static int put_filter(struct tamis_edit *edit, const struct segment *s, uint64_t at)
{
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = s->id, .binding_bytes = 16, .list_bits = 64};
    opt.replace = 1; /* another file's, or one that a crash has left */
    struct tamis_builder *made;
    if (s->is_merged && !s[-1].lacks_filter && !s[-2].lacks_filter) {
        size_t from[] = {targets[at - 2].ordinal - 1, targets[at - 1].ordinal - 1};
        n_merged++;
        return tamis_edit_merge(edit, s->name, strlen(s->name), now, from, 2, 0, &opt,
                                NULL, NULL);
    }
    int rc = tamis_edit_builder(edit, s->name, strlen(s->name), 0, &opt, &made, NULL);
    for (size_t i = 0; i < s->n && !rc; i++) /* tombstones, too: get() must find them */
        rc = tamis_builder_add_key(made, &s->records[i].key, sizeof(uint64_t));
    if (!rc)
        rc = tamis_edit_put(edit, made, NULL, NULL);
    tamis_builder_free(made);
    return rc;
}

/* One edit: filters of these segments, and of no others. If it fails nothing changes,
 * and segments without a filter are read. */
static void store_has(struct tree *list)
{
    struct tamis_edit *edit;
    struct tamis_identity live[MOST_SEGMENTS + 1];
    find_filters(list); /* whatever is put after this snapshot stays */
    int rc = tamis_edit_begin(store, NULL, &edit, NULL);
    for (uint64_t i = 0; i < list->n && !rc; i++) {
        struct segment *s = &list->segments[i];
        live[i] = (struct tamis_identity){s->name, strlen(s->name), s->id, 16, NULL};
        if (s->lacks_filter)
            rc = put_filter(edit, s, i);
    }
    if (!rc)
        rc = tamis_edit_reconcile(edit, now, live, list->n, NULL, NULL);
    if (rc || (rc = tamis_edit_commit(edit, NULL)) == TAMIS_ERR_BUSY)
        tamis_edit_abort(edit);
    if (rc)
        fprintf(stderr, "lsm_store: no filters were changed: %s\n", tamis_strerror(rc));
    else if ((rc = tamis_store_confirm(store, NULL, NULL)) != 0) /* new, or repaired */
        fprintf(stderr, "lsm_store: not confirmed: %s\n", tamis_strerror(rc));
    find_filters(list);
}

static int by_key(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Makes a segment of these records in the place of those from `first` on. */
static void replace(struct record *records, size_t n, uint64_t first)
{
    struct tree old = tree;
    struct segment *made = &old.segments[old.n++];
    made->is_merged = first + 2 == tree.n;
    snprintf(made->name, sizeof made->name, "segment-%u", (unsigned)tree.n_files++);
    if (getrandom(made->id, sizeof made->id, 0) != sizeof made->id)
        fail("getrandom", errno);
    qsort(records, n, sizeof *records, by_key);
    made->n = n;
    write_file(made->name, records, n * sizeof *records);
    map_segment(made);
    store_has(&old);     /* the old ones and the new one */
    made->is_merged = 0; /* from now on others are before it */
    tree.segments[first] = *made;
    tree.n = first + 1;
    write_file("MANIFEST.new", &tree, sizeof tree);
    if (fsync(here) || rename("MANIFEST.new", "MANIFEST") || fsync(here))
        fail("MANIFEST", errno);
    store_has(&tree);
    for (struct segment *s = &old.segments[first]; s < made; s++)
        if (munmap(s->records, s->n * sizeof *s->records) || unlink(s->name))
            fail(s->name, errno);
}

/* A flush: BATCH new keys, and tombstones for a tenth of those of the flush before. */
static void flush(void)
{
    static struct record r[2 * BATCH];
    uint64_t begin = tree.n_batches++ * BATCH, n = 0;
    for (uint64_t key = begin > 0 ? begin - BATCH : 0; key < begin + BATCH; key++)
        if (key >= begin || key % 10 == 0)
            r[n++] = (struct record){key, key < begin};
    replace(r, n, tree.n);
}

/* Merges the two newest segments. There are older ones, so tombstones must stay. */
static void compact(void)
{
    const struct segment *newest = &tree.segments[tree.n - 1], *older = newest - 1;
    struct record *r = malloc((newest->n + older->n) * sizeof *r);
    if (!r)
        fail("memory", errno);
    memcpy(r, newest->records, newest->n * sizeof *r);
    size_t n = newest->n;
    for (size_t i = 0; i < older->n; i++)
        if (!bsearch(&older->records[i], newest->records, newest->n, sizeof *r, by_key))
            r[n++] = older->records[i];
    replace(r, n, tree.n - 2);
    free(r);
}

/* 1: the key is there. */
static int get(uint64_t key)
{
    uint64_t absent[1];
    struct tamis_domain domain = tamis_snapshot_info(now).domain;
    struct tamis_key k = tamis_key_of(&domain, &key, sizeof key); /* hashed once */
    struct tamis_query q = {.size = sizeof q, .keys = &k, .n_keys = 1};
    q.targets = targets, q.n_targets = tree.n, q.absent = absent;
    tamis_snapshot_query(now, &q, NULL);
    for (uint64_t i = tree.n; i-- > 0;) {
        if (absent[0] >> i & 1)
            continue; /* a proof, and all that saves a read */
        n_read++;
        const struct segment *s = &tree.segments[i];
        const struct record *r = bsearch(&key, s->records, s->n, sizeof *r, by_key);
        if (r)
            return !r->dead;
    }
    return 0;
}

static void open_tree(void)
{
    int fd = open("MANIFEST", O_RDONLY | O_CLOEXEC);
    if (fd < 0 ? errno != ENOENT
               : read(fd, &tree, sizeof tree) != sizeof tree || close(fd))
        fail("MANIFEST", errno);
    for (uint64_t i = 0; i < tree.n; i++)
        map_segment(&tree.segments[i]);
    struct tamis_open_options opt = {.size = sizeof opt,
                                     .create = TAMIS_CREATE_IF_MISSING};
    int rc = tamis_store_open("filters", &opt, &store, NULL);
    if (rc)
        fprintf(stderr, "lsm_store: it goes without filters: %s\n", tamis_strerror(rc));
    printf("at the start the lists differ in %u segments\n", find_filters(&tree));
    store_has(&tree); /* whatever a crash has left */
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/lsm_store.XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(made);
    unsigned n_lost = 0, n_differ = 0;
    if (!dir || chdir(dir) || (here = open(".", O_RDONLY | O_CLOEXEC)) < 0)
        fail(dir ? dir : made, errno);
    open_tree();
    for (int i = 0; i <= 8; i++) {
        for (uint64_t key = 0; key < tree.n_batches * BATCH; key++)
            n_lost += get(key) != (key % 10 != 0 || key / BATCH + 1 == tree.n_batches);
        n_differ += find_filters(&tree);
        if (i < 8)
            tree.n < MOST_SEGMENTS ? flush() : compact();
    }
    n_read = 0;
    for (uint64_t key = 0; key < N_ABSENT; key++)
        n_lost += get(UINT64_MAX - key) != 0;
    int all = N_ABSENT * (int)tree.n;
    printf("%u keys: %u lost; then the lists differ in %u segments\n"
           "%d absent keys in %d segments: %d reads skipped, %d done\n",
           (unsigned)tree.n_batches * BATCH, n_lost, n_differ, N_ABSENT, (int)tree.n,
           all - n_read, n_read);
    printf("error %.3f%%, planned 1.000%%; %d filters made from lists\n",
           100.0 * n_read / all, n_merged);
    tamis_snapshot_release(now);
    tamis_store_close(store);
    int wrong = n_lost > 0 || n_differ > 0 || n_read > 0.012 * all;
    fflush(stdout);
    return wrong || argc > 1 ? wrong : execlp("rm", "rm", "-r", dir, (char *)NULL);
}
