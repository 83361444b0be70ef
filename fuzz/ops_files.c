/* Steps with files: put back over newer ones, and damaged. */
#include "fuzz/ops.h"

#include <unistd.h>

static struct saved_tree then, now;
static struct promises promised_then;

/* What the files are while nobody has them open. */
static const char *close_for_files(struct saved_tree *to)
{
    static char path[2 * STEPS_PATH_BYTES];
    steps_expect_held(&player);
    player_end(&player);
    path_in_store(&player, "", path);
    save_store(to, path);
    return path;
}

static void close_store(void)
{
    tamis_store_close(player.store);
    player.store = NULL;
}

static void put_back_catalog(const struct saved_tree *from, const char *store)
{
    char lock[2 * STEPS_PATH_BYTES];
    path_in_store(&player, "catalog.lmdb-lock", lock);
    file_put_back(saved_named(from, "catalog.lmdb"), store);
    unlink(lock);
}

/* What this list does not have it cannot speak of. */
static void ask_listed(struct tamis_snapshot *s, const struct promises *p)
{
    static struct promises listed;
    size_t index;
    listed = *p;
    for (size_t i = 0; i < listed.n_objects; i++)
        if (!find_segment(s, listed.object[i].name, &index))
            listed.object[i].standing = NOT_THERE;
    steps_ask(&player, s, &listed);
}

/* An older list over the files of today: no segment that it has lacks a key of then or
 * of now. */
static void old_catalog(void)
{
    struct tamis_snapshot *s;
    if (!then.n)
        return;
    const char *store = close_for_files(&now);
    put_back_catalog(&then, store);
    play_text(&player, "open");
    MUST(tamis_snapshot_current(player.store, &s, NULL) == 0);
    ask_listed(s, &promised_then);
    ask_listed(s, player.p);
    tamis_snapshot_release(s);
    close_store();
    put_back_catalog(&now, store);
    play_text(&player, "open");
    check_now();
}

/* Packs and tombstones that have gone come back under their names, or old tombstones
 * over the newer ones. But not for long: with an old catalog they would be the store of
 * then, whole (SPEC.md 7.3, catalog put back). */
static void old_packs(bool tombstones, bool sweep)
{
    char path[2 * STEPS_PATH_BYTES];
    const char *store = close_for_files(&now);
    for (size_t i = 0; i < then.n; i++) {
        const struct saved_file *f = &then.files[i];
        bool is_there = saved_named(&now, f->name) != NULL;
        if (tombstones ? is_there && strstr(f->name, ".dead") : !is_there)
            file_put_back(f, store);
    }
    play_text(&player, "open");
    check_now();
    if (tombstones && sweep) { /* as after a writer that died before it set them */
        play_text(&player, "begin; abort");
        return;
    }
    close_store();
    for (size_t i = 0; i < then.n; i++) {
        path_in_store(&player, then.files[i].name, path);
        if (!saved_named(&now, then.files[i].name))
            unlink(path);
    }
    tree_put_back(&now, store);
    play_text(&player, "open");
}

/* ---- damage ---- */

/* Bits of an open stage may be replaced unseen (SPEC.md 7.3): its file is left. */
static bool grows(const char *name)
{
    struct tamis_snapshot *s;
    struct tamis_segment_info info;
    bool found = false;
    MUST(tamis_snapshot_current(player.store, &s, NULL) == 0);
    for (size_t i = 0; i < tamis_snapshot_n_segments(s); i++) {
        MUST(tamis_snapshot_segment(s, i, &info) == 0);
        found |= info.state == TAMIS_SEGMENT_GROWING && strcmp(info.file, name) == 0;
    }
    tamis_snapshot_release(s);
    return found;
}

/* From now on any segment may be hurt: as if one that is never there were. */
static void note_hurt(void)
{
    is_hurt = true;
    promised_object(player.p, "hurt")->worth = ROTTEN;
}

static void damage(uint8_t what, uint8_t arg)
{
    uint64_t rng = arg;
    const char *store = close_for_files(&now);
    play_text(&player, "open");
    for (size_t i = 1; i < now.n; i++) {
        struct saved_file *f = &now.files[(arg + i) % now.n];
        if (strncmp(f->name, "filters/", 8) != 0 || grows(f->name) || !f->n)
            continue;
        size_t at = draw_below(&rng, f->n), n = what & 8 ? 1 : PAGE_BYTES;
        if (n > 1)
            at -= at % PAGE_BYTES;
        for (size_t k = at; k < f->n && k < at + n; k++)
            f->bytes[k] = n > 1 ? 0 : (uint8_t)(f->bytes[k] ^ (1 + arg % 255));
        close_store();
        file_put_back(f, store);
        note_hurt();
        play_text(&player, "open");
        break;
    }
    check_now();
}

void step_files(uint8_t what, uint8_t arg)
{
    switch (what % 8) {
    case 0:
    case 1:
        close_for_files(&then);
        promised_then = *player.p;
        play_text(&player, "open");
        break;
    case 2:
    case 3:
    case 4:
        old_catalog();
        break;
    case 5:
    case 6:
        old_packs(what % 8 == 6, what & 8);
        break;
    default:
        damage(what, arg);
        break;
    }
}

void files_end(void)
{
    tree_forget(&then);
    tree_forget(&now);
}
