/* A filter inside a file of the engine's (tamis_builder_finish_fd): nothing of it is
 * synced but by the engine, together with what surrounds it. And once more at the same
 * place, over the one before.
 *
 * Until the engine has synced, anything may be there: but what opens as the filter that
 * is meant, by its binding, must not deny a key. After the sync it is whole. */
#include "tests/crash/workloads/store.h"
#include "tests/crash/workloads/workload.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    uint64_t offset;
    size_t from[2], n_keys[2];
    int n_begun, promised; /* so many were begun; this one is acknowledged, or -1 */
} embedded;

static const char *const binding[2] = {"first", "second"};

/* ---- the states ---- */

static void expect_embedded(const struct run *r, int fd, int which)
{
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .identity.binding = binding[which],
        .identity.binding_bytes = strlen(binding[which]),
    };
    struct log_part part = {r, embedded.from[which]};
    struct promised_filter p = promised_by(r, false);
    struct tamis_filter *f;
    struct tamis_diag diag;
    int err = tamis_filter_open_fd(fd, embedded.offset, 0, &opt, &f, &diag);
    bool promised = embedded.promised == which && embedded.n_begun == which + 1;
    if (err && promised)
        run_fail(r, "the embedded filter does not open: %s", diag.what);
    if (err)
        return;
    p.grows = false;
    p.keys = (struct promised_keys){key_of_part, &part, embedded.n_keys[which]};
    p.any_damage = !promised;
    expect_filter(binding[which], f, &p);
    tamis_filter_close(f);
}

static void check_embedded(struct run *r, const struct disk_state *s, uint64_t hash,
                           bool deep)
{
    char path[2 * RUN_PATH_BYTES];
    int file = -1;
    (void)hash, (void)deep;
    r->now = s;
    for (size_t i = 0; i < s->disk->n_names; i++)
        if (strcmp(s->disk->names[i].text, RUN_FILE) == 0)
            file = disk_state_file(s, i);
    if (file < 0 && embedded.promised >= 0)
        run_fail(r, "the engine's file is lost");
    if (file >= 0) {
        uint8_t *bytes = malloc(s->disk->files[file].capacity);
        if (!bytes)
            abort();
        uint64_t n = disk_image(s, (size_t)file, bytes);
        snprintf(path, sizeof path, "%s/image", r->dir);
        put_file(r->dir, "image", bytes, (size_t)n);
        free(bytes);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        for (int i = 0; i < embedded.n_begun; i++)
            expect_embedded(r, fd, i);
        close(fd);
    }
    r->now = NULL;
}

/* ---- the workload ---- */

static void engine(const struct run *r, bool ok)
{
    if (!ok)
        run_fail(r, "the engine's own call failed");
}

static uint64_t build_into(struct run *r, int fd, int which)
{
    struct tamis_domain domain;
    struct tamis_builder *b;
    struct tamis_diag diag;
    uint64_t n_bytes;
    tamis_domain_init(&domain, 1, 7);
    r->promise.tag = domain.tag;
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &domain,
        .identity.binding = binding[which],
        .identity.binding_bytes = strlen(binding[which]),
    };
    bool large = rng_below(&r->rng, 3) == 0;
    embedded.n_keys[which] = large ? 4000 + (size_t)rng_below(&r->rng, 4000)
                                   : (size_t)rng_below(&r->rng, 40);
    embedded.from[which] = which ? embedded.n_keys[0] : 0;
    embedded.n_begun = which + 1;
    r->promised_aside = mix64((uint64_t)embedded.n_begun, 7);
    ours(r, tamis_builder_create(&opt, &b, &diag), "builder", &diag);
    tamis_builder_add_hashes(b, domain.tag, r->promise.keys + embedded.from[which],
                             embedded.n_keys[which]);
    ours(r, tamis_builder_finish_fd(b, fd, embedded.offset, &n_bytes, &diag),
         "finish_fd", &diag);
    tamis_builder_free(b);
    return embedded.offset + n_bytes;
}

void run_embed(struct run *r)
{
    uint8_t page[PAGE_BYTES];
    memset(&embedded, 0, sizeof embedded);
    embedded.promised = -1;
    r->check = check_embedded;
    int dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = open(r->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    engine(r, dir >= 0 && fd >= 0);
    memset(page, 0xab, sizeof page);
    uint64_t n_pages = 1 + rng_below(&r->rng, 2);
    for (uint64_t i = 0; i < n_pages; i++)
        engine(r, io_write(fd, page, sizeof page, i * PAGE_BYTES) == 0);
    embedded.offset = n_pages * PAGE_BYTES;
    for (int which = 0; which < 2; which++) {
        uint64_t end = build_into(r, fd, which);
        engine(r, io_write(fd, "footer", 6, end) == 0);
        engine(r, io_calls.fdatasync(fd) == 0 && io_calls.fsync(dir) == 0);
        embedded.promised = which;
        r->promised_aside = mix64((uint64_t)which, 11);
        record_event(r);
    }
    close(fd);
    close(dir);
}
