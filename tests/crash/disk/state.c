/* The states that a power cut may leave: what names mean, and what becomes of each
 * length and sector that is not durable. */
#include "tests/crash/disk/disk.h"

#include <xxhash.h>

/* ---- names ---- */

static bool is_temporary(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

static struct disk_name *find_name(struct disk *d, int dir, const char *name)
{
    for (size_t i = 0; i < d->n_names; i++)
        if (d->names[i].dir == dir && strcmp(d->names[i].text, name) == 0)
            return &d->names[i];
    if (d->n_names == DISK_MAX_NAMES || strlen(name) >= DISK_NAME_BYTES)
        abort();
    struct disk_name *n = &d->names[d->n_names++];
    memset(n, 0, sizeof *n);
    memcpy(n->text, name, strlen(name));
    n->dir = (int16_t)dir;
    n->temporary = is_temporary(name);
    n->file[0] = -1;
    n->n = 1;
    return n;
}

void disk_set_name(struct disk *d, int dir, const char *name, int file, bool durable)
{
    struct disk_name *n = find_name(d, dir, name);
    if (durable)
        n->n = 0;
    else if (n->file[n->n - 1] == file)
        return;
    if (n->n == DISK_MAX_MEANINGS)
        abort();
    n->file[n->n++] = (int16_t)file;
}

int disk_live_name(const struct disk *d, int dir, const char *name)
{
    for (size_t i = 0; i < d->n_names; i++)
        if (d->names[i].dir == dir && strcmp(d->names[i].text, name) == 0)
            return d->names[i].file[d->names[i].n - 1];
    return -1;
}

void disk_sync_names(struct disk *d, int dir)
{
    for (size_t i = 0; i < d->n_names; i++) {
        struct disk_name *n = &d->names[i];
        if (n->dir != dir)
            continue;
        n->file[0] = n->file[n->n - 1];
        n->n = 1;
    }
}

/* ---- states ---- */

static struct disk_item *add_item(struct disk_items *out, enum disk_kind kind,
                                  size_t file, size_t index, size_t n_choices)
{
    if (out->n == DISK_MAX_ITEMS)
        abort();
    struct disk_item *i = &out->item[out->n++];
    i->kind = kind;
    i->file = (uint16_t)file;
    i->index = (uint32_t)index;
    i->n_choices = (uint8_t)n_choices;
    return i;
}

/* Lengths of before, of now and one in between, at a byte, a sector or a page. */
static void length_item(const struct disk_file *f, size_t file, struct rng *r,
                        struct disk_items *out)
{
    if (!f->n_lengths)
        return;
    uint64_t low = f->durable_bytes, high = f->live_bytes;
    if (low > high)
        low = f->live_bytes, high = f->durable_bytes;
    uint64_t between = low + rng_below(r, high - low + 1);
    static const uint64_t unit[] = {1, SECTOR_BYTES, PAGE_BYTES};
    between -= between % unit[rng_below(r, 3)];
    bool odd = between > low && between < high;
    struct disk_item *i =
        add_item(out, DISK_LENGTH, file, 0, f->n_lengths + (odd ? 2U : 1U));
    size_t n = 0;
    i->value[n++] = f->durable_bytes;
    if (odd)
        i->value[n++] = between;
    for (size_t k = 0; k < f->n_lengths; k++)
        i->value[n++] = f->length[k];
}

void disk_items(const struct disk *d, struct rng *r, struct disk_items *out)
{
    out->n = 0;
    for (size_t i = 0; i < d->n_names; i++)
        if (d->names[i].n > 1)
            add_item(out, DISK_NAME, 0, i, d->names[i].n);
    for (size_t i = 0; i < d->n_files; i++)
        length_item(&d->files[i], i, r, out);
    for (size_t i = 0; i < d->n_files; i++) {
        const struct disk_file *f = &d->files[i];
        for (size_t k = 0; k < f->n_dirty; k++) {
            const struct disk_sector *s = &f->dirty[k];
            struct disk_item *item = add_item(out, DISK_SECTOR, i, k, s->n + 1U);
            uint64_t before =
                disk_sector_hash(s->at, f->durable + (size_t)s->at * SECTOR_BYTES);
            item->sector = s->at;
            item->value[0] = 0;
            for (size_t v = 0; v < s->n; v++)
                item->value[v + 1] = s->hash[v] - before;
        }
    }
}

int disk_state_file(const struct disk_state *s, size_t name)
{
    const struct disk_name *n = &s->disk->names[name];
    for (size_t i = 0; i < s->items->n; i++) {
        const struct disk_item *item = &s->items->item[i];
        if (item->kind != DISK_NAME)
            break; /* names come first */
        if (item->index == name)
            return n->file[s->choice[i]];
    }
    return n->file[0];
}

static uint64_t state_length(const struct disk_state *s, size_t file)
{
    for (size_t i = 0; i < s->items->n; i++) {
        const struct disk_item *item = &s->items->item[i];
        if (item->kind == DISK_SECTOR)
            break;
        if (item->kind == DISK_LENGTH && item->file == file)
            return item->value[s->choice[i]];
    }
    return s->disk->files[file].durable_bytes;
}

/* The hash of the path by which a directory is found, if it is. */
static bool reached(const struct disk_state *s, int dir, uint64_t *path)
{
    uint64_t up;
    *path = 0;
    if (dir == DISK_ROOT)
        return true;
    for (size_t i = 0; i < s->disk->n_names; i++) {
        const struct disk_name *n = &s->disk->names[i];
        if (n->temporary || disk_state_file(s, i) != dir || !reached(s, n->dir, &up))
            continue;
        *path = XXH3_64bits_withSeed(n->text, strlen(n->text), up);
        return true;
    }
    return false;
}

uint64_t disk_hash(const struct disk_state *s)
{
    uint64_t sum = 0, bytes[DISK_MAX_FILES], length[DISK_MAX_FILES];
    const struct disk *d = s->disk;
    for (size_t i = 0; i < d->n_files; i++) {
        bytes[i] = d->files[i].durable_hash;
        length[i] = state_length(s, i);
    }
    for (size_t i = 0; i < s->items->n; i++) {
        const struct disk_item *item = &s->items->item[i];
        if (item->kind == DISK_SECTOR &&
            (uint64_t)item->sector * SECTOR_BYTES < length[item->file])
            bytes[item->file] += item->value[s->choice[i]];
    }
    for (size_t i = 0; i < d->n_names; i++) {
        const char *name = d->names[i].text;
        int file = disk_state_file(s, i);
        uint64_t path;
        if (file < 0 || !reached(s, d->names[i].dir, &path))
            continue;
        /* A temporary's name is random: that one is there is all that counts. */
        sum += d->names[i].temporary
                   ? mix64(1, 1)
                   : mix64(XXH3_64bits_withSeed(name, strlen(name), path),
                           mix64(length[file], bytes[file]));
    }
    return mix64(sum, 2);
}

uint64_t disk_image(const struct disk_state *s, size_t file, uint8_t *to)
{
    const struct disk_file *f = &s->disk->files[file];
    uint64_t length = state_length(s, file);
    uint64_t copied = f->durable_bytes < length ? f->durable_bytes : length;
    memcpy(to, f->durable, (size_t)copied);
    if (copied < length)
        memset(to + copied, 0, (size_t)(length - copied));
    for (size_t i = 0; i < s->items->n; i++) {
        const struct disk_item *item = &s->items->item[i];
        size_t at = (size_t)item->sector * SECTOR_BYTES;
        if (item->kind != DISK_SECTOR || item->file != file || !s->choice[i] ||
            at >= length)
            continue;
        size_t n = length - at < SECTOR_BYTES ? (size_t)(length - at) : SECTOR_BYTES;
        memcpy(to + at, f->dirty[item->index].version[s->choice[i] - 1], n);
    }
    return length;
}

void disk_describe(const struct disk_state *s, FILE *to)
{
    for (size_t i = 0; i < s->items->n; i++) {
        const struct disk_item *item = &s->items->item[i];
        unsigned c = s->choice[i], n = item->n_choices - 1U;
        if (item->kind == DISK_NAME) {
            int file = s->disk->names[item->index].file[c];
            fprintf(to, "    name %s: %d (choice %u of 0..%u)\n",
                    s->disk->names[item->index].text, file, c, n);
        } else if (item->kind == DISK_LENGTH) {
            fprintf(to, "    length of file %u: %llu (choice %u of 0..%u)\n",
                    item->file, (unsigned long long)item->value[c], c, n);
        } else {
            fprintf(to, "    file %u, sector %u (byte %u): version %u of 0..%u\n",
                    item->file, item->sector, item->sector * (unsigned)SECTOR_BYTES, c,
                    n);
        }
    }
}
