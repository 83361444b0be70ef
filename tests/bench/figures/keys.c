/* Is reading keys the bottleneck of a build? The command, from a file of them, against
 * the library, which is handed their hashes; both end with a file that is durable. */
#include "tests/bench/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

struct reading {
    char keys[512], built[512];
    const uint64_t *hashes;
    size_t n;
};

static void write_keys(const char *path, size_t n)
{
    uint64_t *keys = keys_of(0, n);
    file_remove(path);
    FILE *f = fopen(path, "w");
    for (size_t i = 0; f && i < n; i++)
        fprintf(f, "user%012llx\n", (unsigned long long)keys[i] & 0xffffffffffff);
    if (!f || fclose(f) != 0)
        give_up("%s cannot be written", path);
    free(keys);
}

static double lap_command(void *ctx)
{
    struct reading *r = ctx;
    char command[] = TAMIS_BUILD_DIR "/tamis", file[] = "file", build[] = "build";
    char *argv[] = {command, file, build, r->built, r->keys, NULL}, *env[] = {NULL};
    int status = -1;
    pid_t pid;
    file_remove(r->built);
    uint64_t began = now_ns();
    if (posix_spawn(&pid, command, NULL, NULL, argv, env) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        give_up("%s could not build %s", command, r->built);
    return (double)(now_ns() - began) / (double)r->n;
}

static double lap_library(void *ctx)
{
    struct reading *r = ctx;
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    struct tamis_builder_options options = {
        .size = sizeof options, .domain = &bench.domain, .error = 0.01};
    file_remove(r->built);
    uint64_t began = now_ns();
    must(tamis_builder_create(&options, &builder, &diag), &diag, "builder");
    must(tamis_builder_add_hashes(builder, bench.domain.tag, r->hashes, r->n), NULL,
         "adding to a builder");
    must(tamis_builder_finish_file(builder, r->built, &diag), &diag, r->built);
    tamis_builder_free(builder);
    return (double)(now_ns() - began) / (double)r->n;
}

void figures_keys(void)
{
    struct reading r = {.n = bench.sizes.build / 10};
    snprintf(r.keys, sizeof r.keys, "%s", path_in("keys.txt"));
    snprintf(r.built, sizeof r.built, "%s", path_in("keys.tamis"));
    write_keys(r.keys, r.n);
    uint64_t *hashes = hashes_of(0, r.n);
    r.hashes = hashes;
    struct lap laps[] = {{.run = lap_command, .ctx = &r},
                         {.run = lap_library, .ctx = &r}};
    race(laps, 2, bench.sizes.long_reps);
    figure("build_keys", laps[0].ns, laps[1].ns,
           "tamis file build of %zu lines of 16 bytes", r.n);
    file_remove(r.keys), file_remove(r.built);
    free(hashes);
}
