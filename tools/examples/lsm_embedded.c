/* An LSM tree whose segments carry their own filters: get() reads only segments that
 * may hold the key.
 *
 *   segment-N   sorted records | up to a multiple of 4096 | the filter | footer
 *   MANIFEST    the seed of all hashes, and the live segments, oldest first
 *
 * A filter is a part of its segment: written with it, synced by the engine's own
 * fdatasync, gone with it. So it costs no file and no sync, and a crash leaves nothing
 * to reconcile: a compaction is one rename of the manifest, as it is without filters.
 *
 *   cc -Ilib lsm_embedded.c build/libtamis-filter.a -lxxhash -lm -pthread
 *   ./a.out [DIRECTORY]     a named directory stays, and the next run opens it again */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tamis.h>

enum { IN_MEMORY = 20000, N_KEYS = 10 * IN_MEMORY, MOST_SEGMENTS = 8, MERGED = 4 };
static const double planned_error = 0.01;

struct record {
    char key[24];
    uint64_t sequence; /* of equal keys the greater one counts */
    uint64_t dead;     /* 1: a tombstone */
};
static struct segment {
    struct record *records; /* the file, mapped */
    size_t n_bytes;
    struct footer {
        uint64_t n_records, filter_offset, filter_bytes; /* 0 bytes: without a filter */
    } footer;
    struct tamis_filter *filter; /* NULL: the segment is read, always */
} segments[MOST_SEGMENTS];
static struct manifest { /* as it is on the disk */
    uint64_t seed, next_number, n, numbers[MOST_SEGMENTS];
} manifest;
static struct tamis_domain domain;
static unsigned n_skipped, n_hits, n_unsure; /* what became of probes */

_Noreturn static void fail(const char *what, int error)
{
    fprintf(stderr, "lsm_embedded: %s: %s\n", what, tamis_strerror(error));
    exit(2);
}

static const char *name_of(uint64_t number)
{
    static char name[32];
    snprintf(name, sizeof name, "segment-%llu", (unsigned long long)number);
    return name;
}

static void open_segment(const char *name, struct segment *s)
{
    struct tamis_diag diag;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    *s = (struct segment){.n_bytes = (size_t)end};
    if (end < (off_t)sizeof s->footer ||
        (s->records = mmap(NULL, s->n_bytes, PROT_READ, MAP_SHARED, fd, 0)) ==
            MAP_FAILED)
        fail(name, errno);
    memcpy(&s->footer, (char *)s->records + s->n_bytes - sizeof s->footer,
           sizeof s->footer);
    /* A filter of another seed would be refused here. A failure of a filter never fails
     * the engine: it costs reads. */
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .domain = &domain,
                                       .fd = fd,
                                       .offset = s->footer.filter_offset,
                                       .n_bytes = s->footer.filter_bytes};
    if (s->footer.filter_bytes > 0 && tamis_filter_open(NULL, &opt, &s->filter, &diag))
        fprintf(stderr, "%s is read without a filter: %s\n", name, diag.what);
    close(fd);
}

/* Writes a filter of the keys into the segment; if that fails it has 0 bytes. */
static void write_filter(int fd, const struct record *records, struct footer *footer)
{
    struct tamis_builder *builder;
    struct tamis_builder_options opt = {
        .size = sizeof opt, .domain = &domain, .error = planned_error};
    int rc = tamis_builder_create(&opt, &builder, NULL);
    /* A tombstone is a key: get() must find it in this segment, or it goes on to an
     * older one and finds the value that was deleted. */
    for (const struct record *r = records; r < records + footer->n_records && !rc; r++)
        rc = tamis_builder_add_key(builder, r->key, strlen(r->key));
    struct tamis_finish_options at = {
        .size = sizeof at, .fd = fd, .offset = footer->filter_offset};
    if (!rc)
        rc = tamis_builder_finish(builder, NULL, &at, &footer->filter_bytes, NULL);
    if (rc)
        fprintf(stderr, "a segment gets no filter: %s\n", tamis_strerror(rc));
    tamis_builder_free(builder);
}

static int by_key(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : x->sequence > y->sequence ? -1 : 1; /* newest first */
}

/* Makes a segment of these records, of which the newest of each key is kept. */
static void write_segment(const char *name, struct record *records, size_t n)
{
    struct footer footer = {0};
    qsort(records, n, sizeof *records, by_key);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(records[footer.n_records - 1].key, records[i].key) != 0)
            records[footer.n_records++] = records[i];
    size_t n_bytes = footer.n_records * sizeof *records;
    /* There may be a file of that name, of a flush that a crash cut short. */
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, records, n_bytes) != (ssize_t)n_bytes)
        fail(name, errno);
    footer.filter_offset = (n_bytes + 4095) / 4096 * 4096;
    write_filter(fd, records, &footer);
    /* A filter that failed half-way is cut off. Then one sync, for all of it. */
    off_t at = (off_t)(footer.filter_offset + footer.filter_bytes);
    if (ftruncate(fd, at) || pwrite(fd, &footer, sizeof footer, at) != sizeof footer ||
        fdatasync(fd) || close(fd))
        fail(name, errno);
}

/* Makes one segment of `records` in the place of the n newest ones, which go. The list
 * takes effect with the rename; the files that it names are durable before. */
static void replace(struct record *records, size_t n_records, uint64_t n)
{
    struct manifest old = manifest;
    uint64_t number = manifest.next_number++;
    write_segment(name_of(number), records, n_records);
    for (; n > 0; n--) {
        tamis_filter_close(segments[--manifest.n].filter);
        munmap(segments[manifest.n].records, segments[manifest.n].n_bytes);
    }
    open_segment(name_of(number), &segments[manifest.n]);
    manifest.numbers[manifest.n++] = number;
    int fd = open("MANIFEST.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int here = open(".", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || here < 0 || fsync(here) ||
        write(fd, &manifest, sizeof manifest) != sizeof manifest || fsync(fd) ||
        close(fd) || rename("MANIFEST.new", "MANIFEST") || fsync(here) || close(here))
        fail("MANIFEST", errno);
    for (uint64_t i = manifest.n - 1; i < old.n; i++)
        if (unlink(name_of(old.numbers[i]))) /* and its filter with it */
            fail(name_of(old.numbers[i]), errno);
}

/* Merges the newest segments. Tombstones stay, as there are older segments. */
static void compact(void)
{
    static struct record all[2 * N_KEYS];
    size_t n = 0;
    for (size_t s = MOST_SEGMENTS - MERGED; s < MOST_SEGMENTS; s++)
        for (size_t i = 0; i < segments[s].footer.n_records; i++)
            all[n++] = segments[s].records[i];
    replace(all, n, MERGED);
}

static int of_key(const void *key, const void *record)
{
    return strcmp(key, ((const struct record *)record)->key);
}

/* 1: the key is there. (A real tree asks its memtable first.) */
static int get(const char *key)
{
    /* All filters are of one domain, so the key is hashed once. */
    struct tamis_key k = tamis_key_of(&domain, key, strlen(key));
    for (uint64_t i = manifest.n; i-- > 0;) {
        enum tamis_reason why;
        /* ABSENT is a proof, and all that saves a read. A filter that is NULL, or that
         * has lost the page in question, says MAYBE. */
        if (tamis_filter_probe(segments[i].filter, &k, &why) == TAMIS_ABSENT) {
            n_skipped++;
            continue;
        }
        *(why == TAMIS_HIT ? &n_hits : &n_unsure) += 1;
        const struct record *r = bsearch(
            key, segments[i].records, segments[i].footer.n_records, sizeof *r, of_key);
        if (r)
            return !r->dead;
    }
    return 0;
}

static void open_tree(void)
{
    int rc =
        tamis_domain_random(&domain); /* nobody can craft keys that pass them all */
    int fd = open("MANIFEST", O_RDONLY | O_CLOEXEC);
    manifest.seed = domain.seed;
    if (fd < 0 ? errno != ENOENT
               : read(fd, &manifest, sizeof manifest) != sizeof manifest || close(fd))
        fail("MANIFEST", errno);
    if (rc || (rc = tamis_domain_init(&domain, 1, manifest.seed)))
        fail("the seed of the hashes", rc);
    for (uint64_t i = 0; i < manifest.n; i++)
        open_segment(name_of(manifest.numbers[i]), &segments[i]);
}

/* Ten memtables of every tenth key each, and one that deletes the first one's keys. */
static void load(void)
{
    static struct record memtable[IN_MEMORY];
    for (uint32_t n = 0; n <= 10; n++) {
        for (uint32_t i = 0; i < IN_MEMORY; i++) {
            memtable[i] = (struct record){.sequence = n, .dead = n == 10};
            snprintf(memtable[i].key, 24, "user%08u", i * 10 + n % 10);
        }
        replace(memtable, IN_MEMORY, 0);
        if (manifest.n == MOST_SEGMENTS)
            compact();
    }
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/lsm_embedded.XXXXXX", key[24];
    const char *dir = argc > 1 ? argv[1] : mkdtemp(made);
    unsigned n_lost = 0, n_bytes = 0;
    if (!dir || chdir(dir))
        fail(dir ? dir : made, errno);
    open_tree();
    if (manifest.n == 0)
        load();
    for (uint32_t i = 0; i < 2 * N_KEYS; i++) { /* the second half was never put */
        if (i == N_KEYS)
            n_skipped = n_hits = n_unsure = 0;
        snprintf(key, sizeof key, "user%08u", i);
        n_lost += get(key) != (i < N_KEYS && i % 10 != 0);
    }
    double error = (double)n_hits / (n_hits + n_skipped + !n_skipped);
    printf("%u keys, a tenth of them deleted: %u lost\n", N_KEYS, n_lost);
    printf("%u absent keys in %u segments: %u reads skipped, %u done, %u unsure\n",
           N_KEYS, (unsigned)manifest.n, n_skipped, n_hits, n_unsure);
    for (uint64_t i = 0; i < manifest.n; i++)
        n_bytes += (unsigned)segments[i].footer.filter_bytes;
    printf("filters: %u bytes, error %.3f%%, planned %.3f%%\n", n_bytes, 100 * error,
           100 * planned_error);
    if (n_lost > 0 || error > 1.2 * planned_error)
        return 1;
    fflush(stdout);
    return argc > 1 ? 0 : execlp("rm", "rm", "-r", dir, (char *)NULL);
}
