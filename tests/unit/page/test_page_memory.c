/* The memory that a stage has of its pages (R12), while another thread or process
 * changes it: check.c is compiled into this test with a seam at each of its atomic
 * operations and before each of its checks, where the test lets the other one run. A
 * page that anyone found bad stays bad, whatever the order. */

/* This copy of check.c beside the library's own. */
#define map_file               our_map_file
#define map_drop               our_map_drop
#define map_keep_from_children our_map_keep_from_children
#define map_abandon            our_map_abandon
#define stage_memory           our_stage_memory
#define stage_init             our_stage_init
#define stage_check_page       our_stage_check_page
#define stage_copy_page        our_stage_copy_page
#define stage_copy_bytes       our_stage_copy_bytes
#define stage_read             our_stage_read
#define stage_check_read       our_stage_check_read
#define map_keep_file          our_map_keep_file
#define stage_take_page        our_stage_take_page
#define stage_mark_bad         our_stage_mark_bad
#define stage_is_bad           our_stage_is_bad
#define stage_find             our_stage_find
#define stage_probe            our_stage_probe
#define page_copy              our_page_copy

#include "tests/support/support.h"

/* The other one runs at the seam numbered run_at, once. */
static unsigned n_seams, run_at;
static void (*other)(void);
static void look(void);

static void seam(void)
{
    look();
    if (++n_seams == run_at && other) {
        void (*run)(void) = other;
        other = NULL;
        run();
    }
}

static bool meets_floors(const uint8_t page[PAGE_BYTES], const struct le16 floor[8])
{
    seam();
    return page_meets_floors(page, floor);
}

static uint64_t digest(const uint8_t page[PAGE_BYTES])
{
    seam();
    return page_digest(page);
}

#define page_meets_floors meets_floors
#define page_digest       digest
#undef atomic_load
#undef atomic_store
#undef atomic_fetch_or
#undef atomic_fetch_and
#undef atomic_fetch_add
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#define atomic_load(p)     (seam(), atomic_load_explicit(p, memory_order_seq_cst))
#define atomic_store(p, v) (seam(), atomic_store_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_or(p, v)                                                          \
    (seam(), atomic_fetch_or_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_and(p, v)                                                         \
    (seam(), atomic_fetch_and_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_add(p, v)                                                         \
    (seam(), atomic_fetch_add_explicit(p, v, memory_order_seq_cst))
#define atomic_exchange(p, v)                                                          \
    (seam(), atomic_exchange_explicit(p, v, memory_order_seq_cst))
#define atomic_compare_exchange_strong(p, e, v)                                        \
    (seam(), atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst,    \
                                                     memory_order_seq_cst))

#include "lib/page/check.c"

enum { N_PAGES = 70, FLOORS_AT = 5 * PAGE_BYTES, THE_PAGE = 66, MAX_SEAMS = 40 };

/* ---- a stage in memory: each page has 3 bits in each sector ---- */

static _Alignas(PAGE_BYTES) uint8_t bits[N_PAGES * PAGE_BYTES], digests[PAGE_BYTES];
static _Alignas(PAGE_BYTES) struct floor_sector_disk floors[8];
static struct stage stage;
static struct identity identity;
static struct stage_desc desc;
static struct mapping map;
static void *memory;

/* Condemns floors 0..7 of one page, as a writer does. */
static void set_floors(uint64_t page, uint16_t floor)
{
    struct floor_sector_disk *s = &floors[page / PAGES_PER_FLOOR_SECTOR];
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        s->floor[page % PAGES_PER_FLOOR_SECTOR * SECTORS_PER_PAGE + i] = le16_of(floor);
    floor_sector_seal(s, identity.uuid, FLOORS_AT + floor_sector_of(page));
}

static void make_stage(bool sealed, enum tamis_check mode)
{
    memset(bits, 0, sizeof bits);
    for (size_t at = 0; at < sizeof bits; at += SECTOR_BYTES)
        bits[at] = 7;
    for (uint64_t page = 0; page < N_PAGES; page++) {
        struct le64 d = le64_of((page_digest)(bits + page * PAGE_BYTES));
        memcpy(digests + page * DIGEST_BYTES, &d, sizeof d);
        set_floors(page, 3);
    }
    memset(&desc, 0, sizeof desc);
    desc.length = sizeof bits;
    desc.geometry = (struct geometry){N_PAGES * BLOCKS_PER_PAGE, 1, 1};
    desc.floors_offset = FLOORS_AT;
    desc.digests_offset = sealed ? PAGE_BYTES : 0;
    desc.root = (page_digest)(digests);
    free(memory);
    memory = calloc(1, stage_memory(&desc, sealed));
    assert_non_null(memory);
    lost_forget(&map);
    map = (struct mapping){.base = bits, .address = bits, .n_bytes = sizeof bits};
    IS(lost_watch(&map, false, NULL), 0);
    stage_init(&stage, &desc, sealed, &identity, mode, &map, bits, (uint8_t *)floors,
               digests, memory);
    stage_set_plain(&stage); /* as a view that is plain does */
    n_seams = run_at = 0;
    other = NULL;
}

static void lose_a_bit(uint64_t page)
{
    bits[page * PAGE_BYTES + 3 * SECTOR_BYTES] = 5;
}

/* One who is always looking, and has noted in which epoch all was good. */
static uint64_t noted;
static unsigned n_noted;

static void look(void)
{
    uint64_t now = stage_epoch();
    if (!stage_all_good(&stage))
        return;
    noted = now;
    n_noted++;
}

/* Every page but one is known to be good: the next one decides about all. */
static void check_all_but_the_page(void)
{
    for (uint64_t page = 0; page < N_PAGES; page++)
        if (page != THE_PAGE)
            assert_true(stage_page_good(&stage, page));
    assert_false(stage_all_good(&stage));
    n_seams = 0;
}

static void mark_the_page_bad(void)
{
    stage_mark_bad(&stage, THE_PAGE);
}

static void check_the_page(void)
{
    stage_page_good(&stage, THE_PAGE);
}

static void the_page_is_bad_for_ever(void)
{
    other = NULL;
    for (int i = 0; i < 3; i++) {
        assert_true(stage_is_bad(&stage, THE_PAGE));
        assert_false(stage_page_good(&stage, THE_PAGE));
    }
    for (uint64_t page = 0; page < N_PAGES; page++)
        assert_true(stage_page_good(&stage, page) == (page != THE_PAGE));
}

/* ---- a page is found good and bad at once ---- */

static void bad_wins(bool sealed, void (*first)(void), void (*second)(void))
{
    for (unsigned at = 1; at < MAX_SEAMS; at++) {
        make_stage(sealed, TAMIS_CHECK_LAZY);
        check_all_but_the_page();
        noted = 0;
        run_at = at;
        other = second;
        first();
        if (other)
            second(); /* past the last seam: one after the other */
        assert_true(noted < stage_epoch()); /* it is told */
        the_page_is_bad_for_ever();
    }
    assert_true(n_seams < MAX_SEAMS);
}

TEST(test_bad_wins_over_good)
{
    bad_wins(false, check_the_page, mark_the_page_bad);
    bad_wins(true, check_the_page, mark_the_page_bad);
    bad_wins(false, mark_the_page_bad, check_the_page);
    bad_wins(true, mark_the_page_bad, check_the_page);
    assert_true(n_noted > 0);
}

/* Another one looks at the page, which has rotted, while it is being marked: once that
 * one knows, nothing says otherwise any more. */
static unsigned n_learned;

static void learn(void)
{
    if (stage_check_page(&stage, THE_PAGE))
        return;
    n_learned++;
    assert_false(stage_all_good(&stage));
    assert_false(stage_first_good(&stage));
    assert_false(stage_page_good(&stage, THE_PAGE));
    assert_true(noted < stage_epoch());
}

TEST(test_who_knows_finds_it_bad)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        for (unsigned at = 1; at < MAX_SEAMS; at++) {
            make_stage(sealed, TAMIS_CHECK_LAZY);
            for (uint64_t page = 0; page < N_PAGES; page++)
                assert_true(stage_page_good(&stage, page));
            assert_true(stage_all_good(&stage));
            look();
            lose_a_bit(THE_PAGE);
            n_seams = 0;
            run_at = at;
            other = learn;
            mark_the_page_bad();
            other = NULL;
            the_page_is_bad_for_ever();
        }
        assert_true(n_seams < MAX_SEAMS);
    }
    assert_true(n_learned > 5);
}

/* Two look at a page at once: it counts as one, and another one is still to be seen. */
TEST(test_a_page_counts_once)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        for (unsigned at = 1; at < MAX_SEAMS; at++) {
            make_stage(sealed, TAMIS_CHECK_LAZY);
            for (uint64_t page = 1; page < N_PAGES; page++)
                if (page != THE_PAGE)
                    assert_true(stage_page_good(&stage, page));
            n_seams = 0;
            run_at = at;
            other = check_the_page;
            check_the_page();
            other = NULL;
            assert_false(stage_all_good(&stage));
            assert_false(stage_first_good(&stage));
            assert_true(stage_page_good(&stage, 0));
            assert_true(stage_all_good(&stage));
            assert_true(stage_first_good(&stage));
        }
    }
}

/* All pages have been good once, and yet not all are. */
TEST(test_good_before_the_last_one)
{
    make_stage(false, TAMIS_CHECK_LAZY);
    check_the_page();
    mark_the_page_bad();
    check_all_but_the_page();
    the_page_is_bad_for_ever();
}

/* A page that was in use when the mark was set is not believed either: its bits may
 * have been filled up in between. */
TEST(test_a_check_that_was_overtaken_fails)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        make_stage(sealed, TAMIS_CHECK_LAZY);
        run_at = 1;
        other = mark_the_page_bad;
        assert_false(stage_page_good(&stage, THE_PAGE));
        make_stage(sealed, TAMIS_CHECK_STRICT);
        run_at = 1;
        other = mark_the_page_bad;
        assert_false(stage_check_page(&stage, THE_PAGE));
    }
}

/* ---- a writer that finds a loss condemns the page, then fills it ---- */

static void condemn(void)
{
    set_floors(THE_PAGE, FLOOR_DAMAGED);
}

static void tear_the_floors(void)
{
    floors[THE_PAGE / PAGES_PER_FLOOR_SECTOR].uuid_head[0] ^= 1;
}

TEST(test_floors_are_read_again)
{
    make_stage(false, TAMIS_CHECK_LAZY);
    run_at = 1; /* the floors were read, and the bits */
    other = condemn;
    assert_false(stage_page_good(&stage, THE_PAGE));
    the_page_is_bad_for_ever();
}

/* Floors that cannot be read say nothing, now; the next look may find them whole. */
TEST(test_unreadable_floors_are_no_verdict)
{
    for (int late = 0; late < 2; late++) {
        make_stage(false, TAMIS_CHECK_LAZY);
        if (late) {
            run_at = 1;
            other = tear_the_floors;
        } else {
            tear_the_floors();
        }
        assert_false(stage_page_good(&stage, THE_PAGE));
        assert_false(stage_page_good(&stage, THE_PAGE));
        assert_false(stage_is_bad(&stage, THE_PAGE));
        assert_true(stage_page_good(&stage, 0)); /* its floors are in another sector */
        tear_the_floors();                       /* whole again */
        assert_true(stage_page_good(&stage, THE_PAGE));
    }
}

/* ---- what is remembered, page by page ---- */

TEST(test_each_page_for_itself)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        for (uint64_t bad = 0; bad < N_PAGES; bad++) {
            make_stage(sealed, TAMIS_CHECK_LAZY);
            lose_a_bit(bad);
            for (int round = 0; round < 2; round++)
                for (uint64_t page = 0; page < N_PAGES; page++)
                    assert_true(stage_page_good(&stage, page) == (page != bad));
            for (uint64_t page = 0; page < N_PAGES; page++)
                assert_true(stage_is_bad(&stage, page) == (page == bad));
            assert_false(stage_all_good(&stage));
        }
    }
}

/* A page is looked at once in the lazy mode, every time in the strict one, never if
 * nothing is to be checked. */
TEST(test_how_often_a_page_is_read)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        make_stage(sealed, TAMIS_CHECK_LAZY);
        for (uint64_t page = 0; page < N_PAGES; page++)
            assert_true(stage_page_good(&stage, page));
        assert_true(stage_all_good(&stage));
        n_seams = 0;
        lose_a_bit(THE_PAGE);
        assert_true(stage_page_good(&stage, THE_PAGE));
        IS(n_seams, 0);

        make_stage(sealed, TAMIS_CHECK_STRICT);
        for (uint64_t page = 0; page < N_PAGES; page++)
            assert_true(stage_page_good(&stage, page));
        lose_a_bit(THE_PAGE);
        assert_false(stage_page_good(&stage, THE_PAGE));

        make_stage(sealed, TAMIS_CHECK_NONE);
        lose_a_bit(THE_PAGE);
        assert_true(stage_page_good(&stage, THE_PAGE));
        IS(n_seams, 0);
        assert_true(stage_all_good(&stage));
        assert_false(stage_check_page(&stage, THE_PAGE)); /* a scrub */
        assert_false(stage_all_good(&stage));
        for (uint64_t page = 0; page < N_PAGES; page++)
            assert_true(stage_page_good(&stage, page) == (page != THE_PAGE));
    }
}

/* A page of digests that was found good is not digested again: the second page of bits
 * costs one digest, its own. */
TEST(test_digest_pages_are_remembered)
{
    make_stage(true, TAMIS_CHECK_LAZY);
    assert_true(stage_page_good(&stage, 0));
    n_seams = 0;
    assert_true(stage_page_good(&stage, 1));
    unsigned with_memory = n_seams;
    make_stage(true, TAMIS_CHECK_STRICT);
    assert_true(stage_page_good(&stage, 0));
    n_seams = 0;
    assert_true(stage_page_good(&stage, 1));
    IS(n_seams, 2);     /* both, every time; and nothing is remembered */
    IS(with_memory, 4); /* one digest, and three words that change */
    digests[0] ^= 1;
    assert_false(stage_page_good(&stage, 2));
    stage_mark_bad(&stage, 5);
    assert_false(stage_page_good(&stage, 5));
}

static int forget(void **state)
{
    lost_forget(&map);
    free(memory);
    return 0;
}

RUN_TESTS(NULL, forget)
