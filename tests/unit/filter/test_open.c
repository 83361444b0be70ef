/* Opening is O(1) in the filter's size, and a filter whose pages are good is asked by
 * the shortest way. test_hostile_files.c has files that are no filter, or none any
 * more. */
#include "tests/support/filters.h"

enum { N_KEYS = 600 };

static uint64_t keys[N_KEYS];
static struct tamis_domain domain;

static void build_small(const char *path, double error)
{
    BUILD(path, keys, N_KEYS, .domain = &domain, .error = error);
}

static void write_small(const char *path)
{
    unlink(path);
    struct tamis_writer *w =
        WRITER_AS(path, .domain = &domain, .growth = {.first_capacity = 200});
    add_hashes(w, keys, N_KEYS);
    commit_and_close(w, 7);
}

static size_t resident_pages(const char *path, uint64_t *n_bytes)
{
    FD fd = open_to_read(path);
    OK(io_size(fd, n_bytes));
    size_t n_pages = (size_t)(*n_bytes + 4095) / 4096, n = 0;
    unsigned char *in = calloc(1, n_pages);
    void *p = mmap(NULL, (size_t)*n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    OK(mincore(p, (size_t)*n_bytes, in));
    for (size_t i = 0; i < n_pages; i++)
        n += in[i] & 1;
    munmap(p, (size_t)*n_bytes);
    free(in);
    return n;
}

/* A sealed filter of 1 GiB by hand, from SPEC.md's records: building one from keys
 * would take 860 million of them. */
static void make_large(const char *path, uint64_t n_blocks)
{
    struct identity id = {.major = FORMAT_MAJOR,
                          .header_pages = 1,
                          .kind = KIND_BLOOM,
                          .hash_id = 1,
                          .hash_seed = domain.seed,
                          .target_error = 0.01};
    struct commit c = {.sequence = 1,
                       .generation = 1,
                       .keys = N_KEYS,
                       .state = STATE_SEALED,
                       .clean = 1,
                       .n_stages = 1};
    struct stage_desc *s = &c.stages[0];
    struct digest_tree t;
    uint8_t header[PAGE_BYTES];
    s->geometry = (struct geometry){n_blocks, 1, 6};
    s->length = n_blocks * BLOCK_BYTES;
    s->offset = 2 << 20;
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->target_error = 0.01;
    s->digests_offset = s->offset + s->length;
    digest_tree_of(s->length / PAGE_BYTES, &t);
    c.committed_bytes = s->digests_offset + t.n_bytes;
    id.uuid[0] = c.uuid[0] = id.set_id[0] = 1;

    FREED uint8_t *bits = calloc(1, s->length), *digests = calloc(1, t.n_bytes);
    assert_true(bits && digests);
    for (size_t i = 0; i < N_KEYS; i++)
        geometry_add(bits, &s->geometry, keys[i]);
    for (uint64_t i = 0; i < t.n_pages[0]; i++) {
        struct le64 d = le64_of(page_digest(bits + i * PAGE_BYTES));
        memcpy(digests + i * DIGEST_BYTES, &d, sizeof d);
    }
    s->root = digest_tree_finish(&t, digests);
    identity_encode(&id, header);
    commit_encode(&c, SLOT_BIRTH, header + IDENTITY_BYTES);
    FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    OK(ftruncate(fd, (off_t)c.committed_bytes));
    for (uint64_t at = 0; at < s->length; at += PAGE_BYTES) /* the rest are holes */
        if (!all_zero(bits + at, PAGE_BYTES))
            OK(io_write(fd, bits + at, PAGE_BYTES, s->offset + at));
    OK(io_write(fd, digests, t.n_bytes, s->digests_offset));
    OK(io_write(fd, header, sizeof header, 0));
    OK(fsync(fd));
    OK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

TEST(test_first_answer_reads_few_pages)
{
    const uint64_t sizes[] = {UINT64_C(1) << 18, UINT64_C(1) << 24}; /* 16 MiB, 1 GiB */
    for (size_t i = 0; i < 2; i++) {
        const char *path = path_of("large.tamis");
        uint64_t n_bytes;
        make_large(path, sizes[i]);
        assert_true(resident_pages(path, &n_bytes) <= 2); /* dropped: it starts cold */
        struct tamis_filter *f = open_filter(path);
        IS(ask(f, keys[0], NULL), TAMIS_MAYBE);
        size_t n = resident_pages(path, &n_bytes);
        printf("%llu MiB: %zu pages resident after the first answer\n",
               (unsigned long long)n_bytes >> 20, n);
        assert_true(n >= 1 && n <= 16);
        assert_true(count_absent(f, keys, N_KEYS) == 0);
        tamis_filter_close(f);
        unlink(path);
    }
}

/* Answers are the same by each way, so only the view tells which one it takes. */
static bool is_plain(struct tamis_filter *f)
{
    struct view *v = atomic_load(&f->view);
    struct plane plane;
    IS(filter_plane(f, f->tag, 0, &plane), stage_is_plain(&v->stages[0], f->tag));
    return stage_is_plain(&v->stages[0], f->tag);
}

TEST(test_good_pages_are_asked_by_the_shortest_way)
{
    for (int growing = 0; growing < 2; growing++)
        for (uint64_t mark = 0; mark < 2; mark++)
            for (int mode = TAMIS_CHECK_LAZY; mode <= TAMIS_CHECK_NONE; mode++) {
                bool may = !growing && !mark;
                if (growing)
                    write_small(path_of("short"));
                else
                    build_small(path_of("short"), 0.01);
                FILTER f = OPEN_AS(path_of("short"), .check = (enum tamis_check)mode,
                                   .min_watermark = mark);
                IS(is_plain(f),
                   may && (mode == TAMIS_CHECK_FULL || mode == TAMIS_CHECK_NONE));
                IS(count_absent(f, keys, N_KEYS), 0);
                IS(is_plain(f), may && mode != TAMIS_CHECK_STRICT);
            }
}

SET_UP(test_dir_create, tamis_domain_init(&domain, 1, 99), random_hashes(keys, N_KEYS))

RUN_TESTS(set_up, test_dir_remove)
