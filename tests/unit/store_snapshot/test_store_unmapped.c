/* Sealed filters for which a process has no room to map them: they are read, and answer
 * as those that are mapped (lib/filter/unmapped.c). */
#include "tests/support/filters.h"
#include "tests/support/shop/shop.h"
#include "tests/support/shop/ways.h"

enum { SEGMENTS = 10, KEYS = 4000, ASKED = 80, THREADS = 4 };

static size_t n_taken;

/* The filters that other parts of the process leave room for. */
static void leave_room(size_t n)
{
    for (; entry_take_place(); n_taken++)
        ;
    for (; n > 0; n--, n_taken--)
        entry_leave_place();
}

static void leave_all_room(void)
{
    for (; n_taken > 0; n_taken--)
        entry_leave_place();
}

static uint64_t n_unmapped(struct tamis_snapshot *snap)
{
    struct tamis_stats stats;
    OK(tamis_snapshot_stats(snap, 0, &stats));
    return stats.n_unmapped;
}

/* ---- the same answers ---- */

static struct tamis_snapshot *shared;
static struct tamis_filter *mapped[SEGMENTS];
static uint64_t hashes[KEYS];

/* How many answers differ from those of the file as it is mapped. */
static void *compare(void *ctx)
{
    uint64_t read[KEYS / 64 + 1] = {0}, want[KEYS / 64 + 1] = {0};
    uintptr_t n = 0;
    for (size_t i = 0; i < SEGMENTS; i++) {
        struct tamis_target t = tamis_snapshot_target(shared, i);
        uint64_t tag = tamis_snapshot_info(shared).domain.tag;
        enum tamis_reason why;
        ASK(shared, LIST(&t, 1), HASHES(hashes, KEYS, tag), .absent_from_all = read);
        tamis_filter_probe_batch(mapped[i], tag, hashes, KEYS, want, NULL);
        n += memcmp(read, want, sizeof want) != 0;
        for (size_t k = 0; k < KEYS; k += 40) {
            struct tamis_key key = {.tag = tag, .hash = hashes[k]};
            tamis_snapshot_probe(shared, &t, &key, &why);
            n += why != why_of(mapped[i], hashes[k]);
        }
    }
    return (void *)n;
}

TEST_OF_SCENES(read_as_if_mapped)
{
    static char text[ASKED][32];
    struct tamis_key keys[ASKED];
    pthread_t thread[THREADS];
    void *n_wrong;
    scene("ten segments, and room for three");
    leave_room(3);
    steps("put a 0 9; put b 9 90; hashed c 99; put d 100 200; put e 300 1700;"
          "put f 2000 500 kind=ribbon; put g 2500 700 kind=ribbon;"
          "growing h; grow h 3200 300 1; writer h; seal 2; end;"
          "growing i; grow i 3500 100 1; put j 3600 0; hold");
    shared = shop.held;
    struct tamis_domain d = tamis_snapshot_info(shared).domain;
    for (uint64_t k = 0; k < KEYS; k++)
        hashes[k] = tamis_key_of(&d, key_text(k), strlen(key_text(k))).hash;
    for (size_t k = 0; k < ASKED; k++) {
        snprintf(text[k], sizeof text[k], "%s", key_text(k * 50));
        keys[k] = tamis_key_of(&d, text[k], strlen(text[k]));
        if (k % 2)
            keys[k].bytes = NULL;
    }
    size_t n_open = count_files("/proc/self/fd");
    ask_every_way(shared, NULL, SEGMENTS, keys, ASKED, NULL);
    IS(n_unmapped(shared), SEGMENTS - 3 - 1); /* i grows */
    for (size_t i = 0; i < SEGMENTS; i++) {
        struct tamis_filter *f = filter_at(shared, i);
        char name[] = {(char)('a' + i), 0};
        mapped[i] = open_filter(file_of(shop.store, "s", name));
        IS(verified(f).n_pages, verified(mapped[i]).n_pages);
        IS(filter_info(f).table_digest, filter_info(mapped[i]).table_digest);
    }
    IS(compare(NULL), NULL);
    for (size_t i = 0; i < THREADS; i++)
        OK(pthread_create(&thread[i], NULL, compare, NULL));
    for (size_t i = 0; i < THREADS; i++) {
        OK(pthread_join(thread[i], &n_wrong));
        IS(n_wrong, NULL);
    }
    for (size_t i = 0; i < SEGMENTS; i++)
        tamis_filter_close(mapped[i]);
    IS(count_files("/proc/self/fd"), n_open + 1); /* of i */
    leave_all_room();
}

TEST_OF_SCENES(mapped_once_there_is_room)
{
    struct tamis_prepare_report r;
    scene("others are closed");
    leave_room(0);
    steps("put a 0 100; hold");
    OK(tamis_snapshot_prepare(shop.held, NULL, &r, NULL));
    assert_true(r.n_open == 1 && r.open_bytes == 0);
    SNAPSHOT first = shop.held;
    steps("bare b; was a 5 HIT; hold; was a 5 HIT");
    IS(n_unmapped(shop.held), 1);
    leave_all_room();
    SNAPSHOT second = shop.held;
    steps("bare c; hold; was a 5 HIT 500 ABSENT");
    IS(n_unmapped(shop.held), 0);
}

/* ---- files that change ---- */

TEST_OF_SCENES(files_found_again)
{
    static const struct scene_row rows[] = {
        {"lost, and back", "put d 0 100; hash d 5 HIT", "live move d =d",
         "hash d 5 FILE_LOST; live move =d d; hash d 5 HIT 500 ABSENT"},
        {"another's file", "put d 0 100; put e 100 100; hash d 5 HIT", "live swap d e",
         "hash d 5 MISMATCH 500 MISMATCH; live swap d e; hash d 5 HIT 500 ABSENT"},
        {"another table", "put d 0 100; hash d 5 HIT", "live other_digest d",
         "hash d 5 MISMATCH 500 MISMATCH"},
        {"cut", "put d 0 100; hash d 5 HIT", "live copy d =d; live cut d 4096",
         "hash d 5 UNREADABLE; live copy =d d; hash d 5 HIT 500 ABSENT"},
        {"unreadable", "put d 0 100; hash d 5 HIT", "live unreadable d",
         "hash d 5 UNREADABLE; live unreadable; hash d 5 HIT 500 ABSENT"},
        {"dropped", "put d 0 100; hash d 5 HIT", "hold; drop d", "was d 5 FILE_LOST"},
        /* Each single page is the root's own. */
        {"a rotten page is remembered", "put d 0 100; hash d 5 HIT",
         "live copy d =d; live zero d 1",
         "hits d 0 100 DAMAGED; hash d 500 DAMAGED; live copy =d d;"
         "hits d 0 100 DAMAGED; close; hits d 0 100"},
        {"packed, united", "put d 0 100; put e 100 100; hits d 0 100",
         "derive u d e how=union; hits u 0 200; pack d e u",
         "packed d e u; hits u 0 200"},
    };
    leave_room(0);
    PLAY_ROWS(rows);
    leave_all_room();
}

/* A page without its keys, with its digest: the digest's page is not the root's. */
TEST_OF_SCENES(pages_of_digests_are_proven)
{
    static const uint8_t zeros[PAGE_BYTES];
    scene("a forged digest");
    leave_room(0);
    steps("put d 0 5000; hits d 0 5000");
    const char *path = file_of(shop.store, "s", "d");
    struct stage_desc stage = commit_of(path).stages[0];
    struct le64 digest = le64_of(page_digest(zeros));
    assert_true(stage.length > PAGE_BYTES);
    zero_page(path, stage.offset / PAGE_BYTES);
    file_poke(path, stage.digests_offset, &digest, sizeof digest);
    steps("hits d 0 5000 DAMAGED");
    leave_all_room();
}

/* ---- calls that fail ---- */

static int read_error; /* of pages from `fails_from` on; 0: they end there */
static off_t fails_from;

static ssize_t failing_pread(int fd, void *buf, size_t n, off_t offset)
{
    if (offset < fails_from)
        return pread(fd, buf, n, offset);
    errno = read_error;
    return read_error ? -1 : 0;
}

TEST_OF_SCENES(reads_that_fail)
{
    static const struct {
        int error;
        off_t from;
        const char *now, *later;
    } rows[] = {
        {0, PAGE_BYTES, "DAMAGED", "DAMAGED"},
        {EIO, PAGE_BYTES, "DAMAGED", "DAMAGED"},
        {ENOMEM, PAGE_BYTES, "DAMAGED", "HIT"},
        {EIO, 0, "UNREADABLE", "HIT"},
    };
    struct rlimit limit, none = {0, 0};
    leave_room(0);
    for (size_t i = 0; i < N_OF(rows); i++) {
        scene("a read fails");
        steps("put d 0 100; hold; was d 500 ABSENT");
        read_error = rows[i].error;
        fails_from = rows[i].from;
        io_calls.pread = failing_pread;
        steps("was d 5 %s", rows[i].now);
        io_calls.pread = pread;
        steps("was d 5 %s", rows[i].later);
        scene_ends();
    }
    scene("no descriptor is left");
    steps("put d 0 100; hold; was d 500 ABSENT");
    OK(getrlimit(RLIMIT_NOFILE, &limit));
    none.rlim_max = limit.rlim_max;
    OK(setrlimit(RLIMIT_NOFILE, &none));
    steps("was d 5 UNREADABLE");
    OK(setrlimit(RLIMIT_NOFILE, &limit));
    steps("was d 5 HIT 500 ABSENT");
    leave_all_room();
}

RUN_TESTS(NULL, NULL)
