/* Damage in open stages (R8, R9, R11): sectors that lost bits are found by their
 * floors, and new bits never mask the loss: not for readers that come later, not
 * after a kill, not through a seal, and not when a writer asks "is it there?". */
#include "tests/support/one_file.h"

enum { N_OLD = 5000, N_NEW = 14000, N_KEYS = N_OLD + N_NEW };
static uint64_t keys[N_KEYS];

SET_UP(one_file_create, random_hashes(keys, N_KEYS))

/* The writer closes it, or dies. */
static void end_session(struct tamis_writer *w, bool clean)
{
    if (!clean)
        file_copy(path, path_of("dead"));
    OK(tamis_writer_close(w, NULL));
    if (!clean)
        OK(rename(path_of("dead"), path));
}

/* A session that is closed. */
static void add_and_close(const uint64_t *hashes, size_t n, uint64_t watermark)
{
    struct tamis_writer *w = open_writer(path);
    add_hashes(w, hashes, n);
    commit_and_close(w, watermark);
}

/* One stage, a quarter full and committed, closed by its writer or not. */
static void make(bool clean)
{
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, 20000);
    add_hashes(w, keys, N_OLD);
    OK(tamis_writer_commit(w, 1, NULL));
    end_session(w, clean);
}

static void zero_sector(uint32_t stage, uint64_t page, uint64_t sector)
{
    static const uint8_t zeros[SECTOR_BYTES];
    file_poke(path,
              commit_of(path).stages[stage].offset + page * PAGE_BYTES +
                  sector * SECTOR_BYTES,
              zeros, sizeof zeros);
}

static uint64_t n_pages_of(uint32_t stage)
{
    return commit_of(path).stages[stage].length / PAGE_BYTES;
}

/* No key is lost for a reader from before, nor for a new one. */
static void expect_present(struct tamis_filter *before, size_t n)
{
    all_there(path, keys, n);
    if (before)
        IS(count_absent(before, keys, n), 0);
}

static size_t count_reason(struct tamis_filter *f, enum tamis_reason reason, size_t n)
{
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        enum tamis_reason why;
        ask(f, keys[i], &why);
        n_found += why == reason;
    }
    return n_found;
}

static void expect_damage_seen(void)
{
    FILTER f = open_filter(path);
    IS(count_absent(f, keys, N_OLD), 0);
    assert_true(count_reason(f, TAMIS_DAMAGED, N_OLD) > 0);
    assert_true(damage_of(f).n_damaged >= 1);
}

static void seal_and_check(uint64_t n_damaged_least, size_t n)
{
    struct tamis_writer *w = open_writer(path);
    uint64_t n_damaged;
    expect_present(NULL, n);
    OK(tamis_writer_seal(w, 100, &n_damaged, NULL));
    assert_true(n_damaged >= n_damaged_least);
    expect_present(NULL, n);
    OK(tamis_writer_close(w, NULL));
    expect_present(NULL, n);
    FILTER f = open_filter(path);
    verified(f); /* pages of ones */
    IS(count_reason(f, TAMIS_HIT, n), n);
}

TEST_WITH_FAULTS(test_every_sector_is_checked)
{
    make(true);
    uint64_t n_pages = n_pages_of(0);
    size_t n;
    FREED uint8_t *whole = file_read(path, &n);
    for (uint64_t page = 0; page < n_pages; page++) {
        for (uint64_t sector = 0; sector < SECTORS_PER_PAGE; sector++) {
            zero_sector(0, page, sector);
            expect_damage_seen();
            FILTER f = open_filter(path);
            struct tamis_verify report = damage_of(f);
            IS(report.n_damaged, 1);
            IS(report.first_damaged,
               commit_of(path).stages[0].offset + page * PAGE_BYTES);
            file_write(path, whole, n);
        }
    }
    expect_present(NULL, N_OLD);
}

/* The writer adds many keys to every page that lost bits; what it does then. */
enum ending { CLOSE, COMMIT_AND_DIE, DIE };

static void damage_and_go_on(bool clean, enum ending ending)
{
    make(clean);
    for (uint64_t page = 0; page < n_pages_of(0); page += 2)
        zero_sector(0, page, random_below(SECTORS_PER_PAGE));
    expect_damage_seen();
    FILTER before = open_filter(path);
    struct tamis_writer *w = open_writer(path);
    expect_present(before, N_OLD);
    for (size_t done = 0; done < N_NEW; done += 1000) {
        add_hashes(w, keys + N_OLD + done, 1000);
        expect_present(before, N_OLD + done + 1000);
    }
    if (ending == COMMIT_AND_DIE)
        OK(tamis_writer_commit(w, 2, NULL));
    end_session(w, ending == CLOSE);
    expect_present(before, N_KEYS);
}

TEST_WITH_FAULTS(test_new_bits_mask_no_loss)
{
    for (int clean = 0; clean < 2; clean++) {
        for (enum ending ending = CLOSE; ending <= DIE; ending++) {
            damage_and_go_on(clean, ending);
            /* Another session: what it finds is still not believed. */
            expect_present(NULL, N_KEYS);
            add_and_close(keys, N_KEYS, 3);
            seal_and_check((n_pages_of(0) + 1) / 2, N_KEYS);
        }
    }
}

/* The page as it was when the writer wrote floors for it. */
static uint8_t page_then[PAGE_BYTES];
static unsigned n_told;

static ssize_t watch_floors(int fd, const void *buf, size_t n, off_t offset)
{
    struct commit c = commit_of(path);
    if ((uint64_t)offset == c.stages[0].floors_offset && n_told++ == 0)
        IS(pread(fd, page_then, PAGE_BYTES, (off_t)c.stages[0].offset), PAGE_BYTES);
    return pwrite(fd, buf, n, offset);
}

/* Readers are told of a loss before new bits could hide it: by the floors, in the file
 * at once; then the page becomes ones. */
TEST_WITH_FAULTS(test_floors_tell_before_bits_change)
{
    size_t n;
    make(true);
    zero_sector(0, 0, 5);
    FREED uint8_t *bytes = file_read(path, &n);
    uint64_t at = commit_of(path).stages[0].offset;
    WRITER w = open_writer(path);
    io_calls.pwrite = watch_floors;
    n_told = 0;
    add_hashes(w, keys + N_OLD, 100);
    IS(n_told, 1); /* once, not for every key */
    assert_memory_equal(page_then, bytes + at, PAGE_BYTES);
    FREED uint8_t *now = file_read(path, &n);
    for (size_t i = 0; i < PAGE_BYTES; i++)
        IS(now[at + i], 0xff);
    expect_damage_seen(); /* the floors say so, whatever the bits */
}

/* Damage again and again: the count of set bits is a hint (R9), and may not make a
 * record that its own rules refuse. */
TEST_WITH_FAULTS(test_damage_over_and_over)
{
    unlink(path);
    struct tamis_writer *w = create_writer(path, 0.01, 2, 2000);
    OK(tamis_writer_close(w, NULL));
    IS(n_pages_of(0), 1);
    fail_from_now(CALL_FALLOCATE, ENOSPC); /* all of it stays in that page */
    for (int round = 0; round < 30; round++) {
        add_and_close(keys, 1900, (uint64_t)round);
        expect_present(NULL, 1900);
        for (uint64_t sector = 0; sector < SECTORS_PER_PAGE; sector++)
            zero_sector(0, 0, sector);
        expect_present(NULL, 1900);
    }
    fail_never();
    seal_and_check(1, 1900);
}

TEST_WITH_FAULTS(test_damaged_floors)
{
    for (int how = 0; how < 3; how++) {
        uint8_t sector[SECTOR_BYTES] = {0};
        make(how != 1);
        uint64_t at = commit_of(path).stages[0].floors_offset;
        if (how > 0) { /* one bit: lower the floor of page 0 */
            size_t n;
            FREED uint8_t *bytes = file_read(path, &n);
            memcpy(sector, bytes + at, sizeof sector);
            sector[1] ^= 1;
        }
        file_poke(path, at, sector, sizeof sector);
        expect_damage_seen();
        struct tamis_writer *w = open_writer(path);
        expect_present(NULL, N_OLD);
        add_hashes(w, keys + N_OLD, N_NEW);
        expect_present(NULL, N_KEYS);
        OK(tamis_writer_commit(w, 2, NULL));
        expect_present(NULL, N_KEYS);
        OK(tamis_writer_close(w, NULL));
        /* The sector guarded all pages: their losses meanwhile are unknown. */
        seal_and_check(n_pages_of(0), N_KEYS);
    }
}

/* Floors gone, bits gone too, and a commit that writes the floors anew for a key on
 * another page: it must not vouch for the pages that it has not looked at. */
TEST_WITH_FAULTS(test_new_floors_vouch_for_nothing_unseen)
{
    static const uint8_t zeros[SECTOR_BYTES];
    for (int clean = 0; clean < 2; clean++) {
        make(clean);
        for (uint64_t page = 0; page < n_pages_of(0); page++)
            zero_sector(0, page, page % SECTORS_PER_PAGE);
        file_poke(path, commit_of(path).stages[0].floors_offset, zeros, sizeof zeros);
        struct tamis_writer *w = open_writer(path);
        expect_present(NULL, N_OLD);
        add_hashes(w, &keys[N_OLD], 1);
        expect_present(NULL, N_OLD + 1);
        OK(tamis_writer_commit(w, 2, NULL));
        expect_present(NULL, N_OLD + 1);
        OK(tamis_writer_close(w, NULL));
        expect_present(NULL, N_OLD + 1);
        seal_and_check(n_pages_of(0), N_OLD + 1);
    }
}

/* Keys of a damaged page in an older stage are not "there already": they are added
 * again, to the newest stage, and so survive the page. */
TEST_WITH_FAULTS(test_writer_skips_no_key_of_a_damaged_page)
{
    unlink(path);
    WRITER w = create_writer(path, 1e-4, 4, 2000);
    add_hashes(w, keys, 3000);
    OK(tamis_writer_close(w, NULL));
    IS(commit_of(path).n_stages, 2);
    size_t n;
    FREED uint8_t *whole = file_read(path, &n);
    struct commit c = commit_of(path);

    zero_sector(0, 1, 2);
    add_and_close(keys, 3000, 2);
    FILTER f = open_filter(path);
    size_t n_damaged = count_reason(f, TAMIS_DAMAGED, 3000);
    IS(n_damaged, 0); /* each has a healthy place now */
    IS(count_reason(f, TAMIS_HIT, 3000), 3000);

    /* The same without damage adds nothing: it is the damage that made it. */
    file_write(path, whole, n);
    w = open_writer(path);
    add_hashes(w, keys, 3000);
    IS(writer_info(w).keys, c.keys);
}

RUN_TESTS(set_up, test_dir_remove)
