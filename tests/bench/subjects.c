/* The filters that are measured, built once a run; their files, and stores of many. */
#include "tests/bench/peers/cxx.h"
#include "tests/bench/peers/peers.h"

#include <ftw.h>

/* ---- files ---- */

const char *path_in(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", bench.dir, name);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at;
    return remove(path);
}

void tree_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char place[256];

static void place_remove(void)
{
    tree_remove(place);
}

const char *memory_dir(void)
{
    if (!*place) {
        bool shm = access("/dev/shm", W_OK) == 0;
        snprintf(place, sizeof place, "%s/tamis-bench-%ld",
                 shm ? "/dev/shm" : bench.dir, (long)getpid());
        mkdir(place, 0700);
        atexit(place_remove);
    }
    return place;
}

struct tamis_builder *builder_of(uint64_t n_keys, double error, uint64_t kind,
                                 uint64_t list_bits)
{
    enum { AT_ONCE = 1 << 14 };
    uint64_t hashes[AT_ONCE];
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    struct tamis_builder_options options = {.size = sizeof options,
                                            .domain = &bench.domain,
                                            .error = error,
                                            .memory_limit = UINT64_C(4) << 30,
                                            .n_threads = n_keys ? 2 : 1,
                                            .kind = kind,
                                            .list_bits = list_bits};
    must(tamis_builder_create(&options, &builder, &diag), &diag, "builder");
    for (uint64_t done = 0; done < n_keys; done += AT_ONCE) {
        size_t n = n_keys - done < AT_ONCE ? n_keys - done : AT_ONCE;
        hashes_fill(done, n, hashes);
        must(tamis_builder_add_hashes(builder, bench.domain.tag, hashes, n), NULL,
             "adding to a builder");
    }
    return builder;
}

struct tamis_filter *filter_open(const char *path)
{
    struct tamis_filter *filter;
    struct tamis_diag diag = {0};
    must(tamis_filter_open(path, NULL, &filter, &diag), &diag, path);
    must(tamis_filter_verify(filter, &(struct tamis_verify){0}, &diag), &diag, path);
    return filter;
}

/* The mapping stays until the process ends. */
struct bits bits_of(const char *path, struct tamis_filter *filter, uint32_t stage)
{
    struct tamis_filter_info all;
    struct tamis_stage_info info;
    struct stat st;
    must(tamis_filter_info(filter, &all, NULL), NULL, "info");
    info = all.stages[stage];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        give_up("%s cannot be opened", path);
    uint8_t *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        give_up("%s cannot be mapped", path);
    madvise(map, (size_t)st.st_size, MADV_RANDOM);
    for (off_t at = 0; at < st.st_size; at += PAGE_BYTES)
        sink += map[at];
    return (struct bits){
        map + info.offset, {info.n_blocks, info.lanes, info.words}, info.bits_bytes};
}

double write_durably_ns(uint64_t n_bytes)
{
    enum { PIECE = 1 << 20 };
    static char source[PIECE], piece[PIECE];
    int to = open(path_in("to"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = to >= 0;
    uint64_t began = now_ns();
    for (uint64_t at = 0; good && at < n_bytes; at += PIECE) {
        memcpy(piece, source, PIECE);
        good = pwrite(to, piece, PIECE, (off_t)at) == PIECE;
    }
    if (!good || fsync(to) != 0)
        give_up("files cannot be copied in %s", bench.dir);
    double ns = (double)(now_ns() - began);
    close(to);
    unlink(path_in("to"));
    return ns;
}

struct tamis_writer *writer_new(const char *path, uint64_t first_capacity)
{
    struct tamis_writer *writer;
    struct tamis_diag diag = {0};
    struct tamis_writer_options options = {
        .size = sizeof options, .domain = &bench.domain, .one_thread = 1};
    options.growth.first_capacity = first_capacity;
    options.growth.factor = 2;
    unlink(path);
    must(tamis_writer_create(path, &options, &writer, &diag), &diag, path);
    return writer;
}

/* ---- subjects ---- */

static struct subject subjects[8];
static size_t n_subjects;

static void subject_build(struct subject *s)
{
    char name[64];
    struct tamis_filter_info all;
    struct tamis_stage_info info;
    struct tamis_diag diag = {0};
    snprintf(name, sizeof name, "%llu-%g.tamis", (unsigned long long)s->n_keys,
             s->error);
    const char *path = path_in(name);
    unlink(path);
    unpin();
    struct tamis_builder *builder =
        builder_of(s->n_keys, s->error, s->ribbon ? TAMIS_RIBBON : TAMIS_BLOOM, 0);
    must(tamis_builder_finish(builder, path, NULL, NULL, &diag), &diag, path);
    tamis_builder_free(builder);
    pin();
    s->filter = filter_open(path);
    must(tamis_filter_info(s->filter, &all, NULL), NULL, "info");
    info = all.stages[0];
    s->bits = (struct bits){.geometry = {info.n_blocks, info.lanes, info.words},
                            .n_bytes = info.bits_bytes};
    unlink(path); /* its name: it stays open */
}

static void subject_fill(struct subject *s)
{
    enum { AT_ONCE = 1 << 14 };
    uint64_t hashes[AT_ONCE];
    const struct geometry *g = &s->bits.geometry;
    must(tamis_filter_inline(s->filter, TAMIS_INLINE_VERSION, &s->value), NULL,
         "inline");
    if (!tamis_inline_is_quick(&s->value, bench.domain.tag))
        give_up("a value of a filter that is good throughout is not quick");
    s->bits.base = s->value.bits;
    lines_add(&s->lines, s->bits.base, g);
    s->blocks =
        (struct tamis_blocks){g->lanes, g->words, g->n_blocks, bench.domain.tag};
    must(tamis_blocks_inline(&s->blocks, TAMIS_INLINE_VERSION, &s->inline_blocks), NULL,
         "blocks");
    s->absent = allocate((s->source.n / 64 + 1) * sizeof *s->absent);
    s->sbbf = sbbf_new(s->n_keys, s->error);
    for (uint64_t done = 0; done < s->n_keys; done += AT_ONCE) {
        size_t n = s->n_keys - done < AT_ONCE ? s->n_keys - done : AT_ONCE;
        hashes_fill(done, n, hashes);
        sbbf_add(s->sbbf, hashes, n);
    }
}

struct subject *subject_of(uint64_t n_keys, double error, bool ribbon)
{
    struct subject *s = subjects;
    while (s < subjects + n_subjects &&
           (s->n_keys != n_keys || s->error != error || s->ribbon != ribbon))
        s++;
    if (s < subjects + n_subjects)
        return s;
    if (++n_subjects > sizeof subjects / sizeof subjects[0])
        give_up("too many filters");
    bool small = n_keys <= bench.sizes.small;
    *s = (struct subject){.n_keys = n_keys, .error = error, .ribbon = ribbon};
    s->source =
        source_of(n_keys, small ? bench.sizes.small_piece : bench.sizes.large_piece);
    subject_build(s);
    if (!ribbon)
        subject_fill(s);
    return s;
}

void subject_scratch(struct subject *s)
{
    if (s->scratch_sbbf)
        return;
    s->scratch[0] = allocate(s->bits.n_bytes);
    s->scratch[1] = allocate(s->bits.n_bytes);
    s->scratch_sbbf = sbbf_new(s->n_keys, s->error);
}

void subjects_free(void)
{
    while (n_subjects) {
        struct subject *s = &subjects[--n_subjects];
        tamis_inline_release(&s->value);
        tamis_filter_close(s->filter);
        sbbf_free(s->sbbf), sbbf_free(s->scratch_sbbf);
        free(s->scratch[0]), free(s->scratch[1]);
        free(s->lines.lanes), free(s->absent);
        if (s->rocksdb)
            rocksdb_free(s->rocksdb);
        source_free(&s->source);
    }
}

/* ---- stores ---- */

struct tamis_edit *edit_of(struct tamis_store *store)
{
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    must(tamis_edit_begin(store, NULL, &edit, &diag), &diag, "edit");
    return edit;
}

void edit_done(struct tamis_edit *edit)
{
    struct tamis_diag diag = {0};
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
}

struct tamis_builder *segment_builder(struct tamis_edit *edit, const char *name,
                                      double error, const uint64_t *hashes, size_t n)
{
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    must(tamis_edit_builder(edit, name, strlen(name), error, NULL, &builder, &diag),
         &diag, "builder");
    must(tamis_builder_add_hashes(builder, bench.domain.tag, hashes, n), NULL,
         "adding");
    return builder;
}

void segment_put(struct tamis_edit *edit, struct tamis_builder *builder)
{
    struct tamis_diag diag = {0};
    must(tamis_edit_put(edit, builder, NULL, &diag), &diag, "put");
    tamis_builder_free(builder);
}

struct tamis_store *store_new(const char *path)
{
    struct tamis_store *store;
    struct tamis_diag diag = {0};
    struct tamis_open_options options = {
        .size = sizeof options, .create = TAMIS_CREATE_NEW, .domain = &bench.domain};
    tree_remove(path);
    must(tamis_store_open(path, &options, &store, &diag), &diag, path);
    return store;
}

struct tamis_snapshot *snapshot_of(struct tamis_store *store)
{
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag = {0};
    must(tamis_snapshot_current(store, &snapshot, &diag), &diag, "snapshot");
    return snapshot;
}

void store_pack(struct tamis_store *store, enum tamis_repack repack)
{
    struct tamis_pack_options options = {.size = sizeof options, .repack = repack};
    struct tamis_pack_report report;
    struct tamis_diag diag = {0};
    struct tamis_snapshot *loose = snapshot_of(store);
    struct tamis_edit *edit = edit_of(store);
    must(tamis_edit_pack(edit, loose, NULL, 0, &options, &report, &diag), &diag,
         "pack");
    edit_done(edit);
    tamis_snapshot_release(loose);
}
