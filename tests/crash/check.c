/* Opening the states: by a reader, by a reader after one slot rotted as well, and by a
 * writer that goes on. */
#include "tests/crash/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- images ---- */

enum { IMAGE_BYTES = 4 << 20 };

static struct image {
    char dir[RUN_PATH_BYTES];
    int fd;
    uint8_t *bytes;
    uint64_t n_bytes;
} images[MAX_LEVEL];

void check_open_images(const char *dir)
{
    for (int i = 1; i < MAX_LEVEL; i++) {
        struct image *m = &images[i];
        char path[RUN_PATH_BYTES + 8];
        snprintf(m->dir, sizeof m->dir, "%.200s/%d", dir, i);
        snprintf(path, sizeof path, "%s/%s", m->dir, RUN_FILE);
        if (mkdir(m->dir, 0700) != 0)
            abort();
        m->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        m->bytes =
            mmap(NULL, IMAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
        if (m->fd < 0 || m->bytes == MAP_FAILED)
            abort();
        m->n_bytes = 0;
    }
}

void check_close_images(const char *dir)
{
    char path[RUN_PATH_BYTES + 8];
    (void)dir;
    for (int i = 1; i < MAX_LEVEL; i++) {
        snprintf(path, sizeof path, "%s/%s", images[i].dir, RUN_FILE);
        unlink(path);
        rmdir(images[i].dir);
    }
}

static struct image *materialise(const struct run *r, const struct disk_state *s,
                                 size_t file)
{
    struct image *m = &images[r->level + 1];
    static uint8_t *bytes;
    if (!bytes)
        bytes = malloc(IMAGE_BYTES);
    if (!bytes || s->disk->files[file].capacity > IMAGE_BYTES)
        abort();
    uint64_t n = disk_image(s, file, bytes);
    /* The session of the state before may have grown it. */
    if (ftruncate(m->fd, (off_t)n) != 0)
        abort();
    memcpy(m->bytes, bytes, (size_t)n);
    m->n_bytes = n;
    return m;
}

/* ---- readers ---- */

static struct tamis_filter *open_reader(const struct run *r, const char *path,
                                        enum tamis_check check)
{
    struct tamis_filter_options opt = {.size = sizeof opt, .check = check};
    struct tamis_filter *f;
    struct tamis_diag diag;
    if (tamis_filter_open(path, &opt, &f, &diag) != 0)
        run_fail(r, "the file does not open: %s", diag.what);
    return f;
}

/* ---- promises ---- */

static const struct run *checked; /* for model_fail() */

_Noreturn void model_broken(const char *text)
{
    run_fail(checked, "%s", text);
}

bool key_of_part(const void *ctx, uint64_t i, struct tamis_key *out)
{
    const struct log_part *part = ctx;
    const struct promise *p = &part->run->promise;
    *out = tamis_key_of_hash(p->tag, p->keys[part->from + i]);
    return true;
}

void expect_log(const struct run *r, struct tamis_filter *f, size_t n)
{
    struct log_part log = {r, 0};
    struct promised_keys keys = {key_of_part, &log, n};
    checked = r;
    expect_keys("the filter", f, &keys, r->promise.lost_page != 0);
}

struct promised_filter promised_by(const struct run *r, bool rotten)
{
    static struct log_part logs[MAX_LEVEL];
    const struct promise *p = &r->promise;
    checked = r;
    logs[r->level].run = r;
    return (struct promised_filter){
        .keys = {key_of_part, &logs[r->level], 0},
        .grows = true,
        .watermark = p->watermark,
        .asked = p->asked,
        .stages = p->stages,
        .seal = p->sealed ? THERE : COMING,
        .rotten_slot = rotten,
        .lost_page = p->lost_page,
    };
}

void expect_promises(const struct run *r, struct tamis_filter *f, bool rotten)
{
    struct promised_filter p = promised_by(r, rotten);
    expect_filter(rotten ? "the filter, one slot rotten," : "the filter", f, &p);
}

/* A reader that remembers no page as good finds the same. */
static void expect_strict(const struct run *r, const char *path)
{
    struct tamis_filter *f = open_reader(r, path, TAMIS_CHECK_STRICT);
    expect_log(r, f, (size_t)r->promise.watermark);
    tamis_filter_close(f);
}

/* ---- rot on top (R2) ---- */

static bool slot_whole(const struct image *m, const struct identity *id, uint8_t slot)
{
    uint64_t sequence;
    return commit_frame(m->bytes + commit_slot_offset(slot), slot, id, &sequence)
               .code == VERDICT_OK;
}

/* As long as the power cut left the other slot whole, a slot that rots costs at most
 * the newest watermark: no stage, no seal, no key. */
static void check_rotten_slot(const struct run *r, const struct image *m,
                              const char *path, uint8_t slot)
{
    struct identity id;
    uint8_t *byte = m->bytes + commit_slot_offset(slot) + 100;
    if (identity_decode(m->bytes, (size_t)m->n_bytes, &id).code != VERDICT_OK ||
        id.header_pages != 3 || !slot_whole(m, &id, slot == SLOT_A ? SLOT_B : SLOT_A))
        return;
    *byte ^= 0x10;
    struct tamis_filter *f = open_reader(r, path, TAMIS_CHECK_LAZY);
    expect_promises(r, f, true);
    tamis_filter_close(f);
    *byte ^= 0x10;
}

/* A sector of bits that comes back as zeros is found by its floor (R8): what was
 * acknowledged stays MAYBE, for another reason. */
static void check_lost_sector(const struct run *r, const struct image *m,
                              const char *path, uint64_t hash)
{
    static uint64_t absent[MAX_KEYS / 64];
    const struct promise *p = &r->promise;
    struct tamis_filter *f = open_reader(r, path, TAMIS_CHECK_LAZY);
    struct tamis_stage_info info;
    struct tamis_filter_info all;
    uint8_t kept[SECTOR_BYTES];
    tamis_filter_info(f, &all);
    if (tamis_filter_stage(f, (uint32_t)(hash % all.n_stages), &info) != 0)
        run_fail(r, "no stage info");
    uint8_t *sector =
        m->bytes + info.offset +
        hash / 256 % (info.bits_bytes / SECTOR_BYTES) * (uint64_t)SECTOR_BYTES;
    memcpy(kept, sector, sizeof kept);
    memset(sector, 0, sizeof kept);
    if (tamis_filter_probe_batch(f, p->tag, p->keys, (size_t)p->watermark, absent,
                                 NULL))
        run_fail(r, "ABSENT after a sector of bits (byte %zu) was lost",
                 (size_t)(sector - m->bytes));
    memcpy(sector, kept, sizeof kept);
    tamis_filter_close(f);
}

/* ---- a state ---- */

/* The state's writer draws what it does from the state: the same again. */
static void go_on(struct run *r, const struct image *m, struct tamis_filter *f,
                  uint64_t hash, bool deep)
{
    static struct run *runs[MAX_LEVEL];
    struct run **sub = &runs[r->level + 1];
    if (!*sub)
        *sub = calloc(1, sizeof **sub);
    if (!*sub)
        abort();
    struct run *next = *sub;
    record_begin(next, r->workload, m->dir, hash);
    next->promise = r->promise;
    next->level = r->level + 1;
    next->round = r->round;
    next->event = 0;
    next->parent = r;
    next->now = NULL;
    next->on_event = r->on_event;
    next->check = r->check;
    if (deep) {
        record_adopt(next, m->bytes, (size_t)m->n_bytes);
        recording = next;
    }
    session(next, f, true);
    recording = NULL;
    expect_promises(next, f, false);
    record_end(next);
}

static void check_sealed_writer(const struct run *r, const char *path)
{
    struct tamis_writer *w;
    int err = tamis_writer_open(path, &w, NULL);
    if (err != TAMIS_ERR_SEALED)
        run_fail(r, "a writer of a sealed filter gets %d", err);
}

void check_state(struct run *r, const struct disk_state *s, uint64_t hash, bool deep)
{
    char path[RUN_PATH_BYTES + 8];
    struct tamis_filter_info info;
    int file = -1;
    r->now = s;
    for (size_t i = 0; i < s->disk->n_names; i++)
        if (strcmp(s->disk->names[i].text, RUN_FILE) == 0)
            file = disk_state_file(s, i);
    if (file < 0 && r->promise.created)
        run_fail(r, "the name is lost");
    if (file >= 0) {
        struct image *m = materialise(r, s, (size_t)file);
        snprintf(path, sizeof path, "%s/%s", m->dir, RUN_FILE);
        /* R13: a file that has its name is whole, created or not. */
        struct tamis_filter *f = open_reader(r, path, TAMIS_CHECK_LAZY);
        expect_promises(r, f, false);
        if (r->promise.lost_page)
            expect_strict(r, path);
        if (hash % 4 == 0) {
            check_rotten_slot(r, m, path, SLOT_A);
            check_rotten_slot(r, m, path, SLOT_B);
            check_lost_sector(r, m, path, hash / 4);
        }
        tamis_filter_info(f, &info);
        if (info.sealed)
            check_sealed_writer(r, path);
        else
            go_on(r, m, f, hash, deep);
        tamis_filter_close(f);
    }
    r->now = NULL;
}
