/* One key against a store of many small segments, by a process that does nothing else:
 * from exec to exit, against `tamis --version`, and against grep over the lists that
 * the segments are made of. Then with nothing of the packs in memory: which pages it
 * reads. */
#include "tests/bench/bench.h"
#include "tests/bench/segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char command[] = TAMIS_BUILD_DIR "/tamis";

/* ---- processes ---- */

/* A list of arguments that grows. */
struct words {
    char **word;
    size_t n;
};

static void say_word(struct words *words, const char *word)
{
    words->word = realloc(words->word, (words->n + 2) * sizeof *words->word);
    char *copy = strdup(word);
    if (!words->word || !copy)
        give_up("no memory for a word");
    words->word[words->n++] = copy;
    words->word[words->n] = NULL;
}

static struct words words_of(const char *first, const char *second, const char *third)
{
    struct words words = {0};
    const char *all[] = {first, second, third};
    for (size_t i = 0; i < 3 && all[i]; i++)
        say_word(&words, all[i]);
    return words;
}

static void words_free(struct words *words)
{
    for (size_t i = 0; i < words->n; i++)
        free(words->word[i]);
    free(words->word);
}

/* Runs it, with what it prints in a file; nanoseconds from before exec to after exit.
 */
static double process_ns(const struct words *words, const char *out, int expected)
{
    static char locale[] = "LC_ALL=C";
    char *env[] = {locale, NULL};
    int status = -1;
    pid_t pid;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    uint64_t began = now_ns();
    int rc = posix_spawnp(&pid, words->word[0], &files, NULL, words->word, env);
    if (rc != 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) != expected)
        give_up("%s %s: %s, status %d", words->word[0],
                words->n > 1 ? words->word[1] : "",
                rc ? strerror(rc) : "not as expected", status);
    double ns = (double)(now_ns() - began);
    posix_spawn_file_actions_destroy(&files);
    return ns;
}

/* ---- the lists, and their store ---- */

struct world {
    char store[512], lists[512], out[512];
    struct words grep; /* all but the files' names: "grep -lxF KEY" comes before */
    uint64_t n, keys_each;
};

/* Lines of 16 bytes. */
static void key_line(uint64_t i, char line[17])
{
    snprintf(line, 17, "%015llx\n", (unsigned long long)(key_of(i) >> 4));
}

static void write_list(const char *path, uint64_t first, uint64_t n)
{
    char line[17];
    FILE *f = fopen(path, "w");
    for (uint64_t i = first; f && i < first + n; i++) {
        key_line(i, line);
        fputs(line, f);
    }
    if (!f || fclose(f) != 0)
        give_up("%s cannot be written", path);
}

static void world_make(struct world *w)
{
    char seed[24], path[600];
    snprintf(w->store, sizeof w->store, "%s", path_in("process"));
    snprintf(w->lists, sizeof w->lists, "%s", path_in("lists"));
    snprintf(w->out, sizeof w->out, "%s", path_in("printed"));
    tree_remove(w->store);
    tree_remove(w->lists);
    if (mkdir(w->lists, 0700) != 0)
        give_up("%s cannot be made", w->lists);
    struct words init = words_of(command, "init", w->store),
                 build = words_of(command, "build", w->store);
    snprintf(seed, sizeof seed, "%016llx", (unsigned long long)bench.seed);
    say_word(&init, "--seed");
    say_word(&init, seed);
    say_word(&build, "--each");
    say_word(&build, "--pack");
    say_word(&build, "-q");
    for (uint64_t i = 0; i < w->n; i++) {
        snprintf(path, sizeof path, "%s/%06llu", w->lists, (unsigned long long)i);
        write_list(path, i * w->keys_each, w->keys_each);
        say_word(&build, path);
        say_word(&w->grep, path);
    }
    process_ns(&init, w->out, 0);
    process_ns(&build, w->out, 0);
    words_free(&init);
    words_free(&build);
}

/* The text of a key, without the end of its line. */
static const char *key_text(uint64_t i)
{
    static char line[17];
    key_line(i, line);
    line[15] = 0;
    return line;
}

/* A key that is there is found, in its segment. */
static void check_found(const struct world *w)
{
    for (uint64_t i = 0; i < w->n; i += w->n / 7 + 1) {
        char wanted[64], line[256];
        bool found = false;
        const char *key = key_text(i * w->keys_each + i % w->keys_each);
        struct words probe = words_of(command, "probe", w->store);
        say_word(&probe, key);
        process_ns(&probe, w->out, 0);
        snprintf(wanted, sizeof wanted, "%s\t%06llu\tHIT\n", key,
                 (unsigned long long)i);
        FILE *f = fopen(w->out, "r");
        while (f && fgets(line, sizeof line, f))
            found = found || strcmp(line, wanted) == 0;
        if (!f || fclose(f) != 0 || !found)
            wrong("a process does not find key %s in segment %llu", key,
                  (unsigned long long)i);
        words_free(&probe);
    }
}

/* ---- warm ---- */

enum { A_LAP = 16 }; /* processes */

static double lap_version(void *ctx)
{
    const struct world *w = ctx;
    double ns = 0;
    struct words version = words_of(command, "--version", NULL);
    for (int i = 0; i < A_LAP; i++)
        ns += process_ns(&version, w->out, 0);
    words_free(&version);
    return ns / A_LAP;
}

static double lap_probe(void *ctx)
{
    const struct world *w = ctx;
    double ns = 0;
    for (int i = 0; i < A_LAP; i++) {
        struct words probe = words_of(command, "probe", w->store);
        say_word(&probe, key_text(fresh_negatives(1)));
        ns += process_ns(&probe, w->out, 0);
        words_free(&probe);
    }
    return ns / A_LAP;
}

static double lap_grep(void *ctx)
{
    const struct world *w = ctx;
    struct words grep = words_of("grep", "-lxF", key_text(fresh_negatives(1)));
    struct words all = {allocate((grep.n + w->grep.n + 1) * sizeof *all.word),
                        grep.n + w->grep.n};
    memcpy(all.word, grep.word, grep.n * sizeof *all.word);
    memcpy(all.word + grep.n, w->grep.word, (w->grep.n + 1) * sizeof *all.word);
    double ns = process_ns(&all, w->out, 1); /* no list has it */
    free(all.word);
    words_free(&grep);
    return ns;
}

/* ---- cold ---- */

struct packs {
    char path[16][900];
    uint64_t columns_from[16], columns_to[16]; /* the table of columns, in pages */
    size_t n;
};

static struct packs packs_of(const struct world *w)
{
    struct packs packs = {0};
    char dir[600];
    snprintf(dir, sizeof dir, "%s/filters", w->store);
    DIR *d = opendir(dir);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct tamis_stage_info stage;
        if (!strstr(entry->d_name, ".tamis") || packs.n == 16)
            continue;
        char *path = packs.path[packs.n];
        snprintf(path, sizeof packs.path[0], "%s/%s", dir, entry->d_name);
        struct tamis_filter *pack = filter_open(path, TAMIS_CHECK_NONE);
        must(tamis_filter_stage(pack, 2, &stage), NULL, "the table of columns");
        tamis_filter_close(pack);
        packs.columns_from[packs.n] = stage.offset / PAGE_BYTES;
        packs.columns_to[packs.n++] = (stage.offset + stage.bits_bytes) / PAGE_BYTES;
    }
    if (!d || closedir(d) != 0 || packs.n == 0)
        give_up("%s has no packs", dir);
    return packs;
}

/* Counts a file's pages that are in memory, and those of pages from .. to - 1. */
static void count_resident(const char *path, uint64_t from, uint64_t to, uint64_t *n,
                           uint64_t *n_there)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        give_up("%s cannot be opened", path);
    size_t n_pages = ((size_t)st.st_size + PAGE_BYTES - 1) / PAGE_BYTES;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *in = allocate(n_pages);
    if (map == MAP_FAILED || mincore(map, (size_t)st.st_size, in) != 0)
        give_up("%s cannot be looked at", path);
    for (size_t i = 0; i < n_pages; i++) {
        *n += in[i] & 1;
        *n_there += (in[i] & 1) && i >= from && i < to;
    }
    munmap(map, (size_t)st.st_size);
    free(in);
    close(fd);
}

static uint64_t resident(const struct packs *packs, uint64_t *n_columns)
{
    uint64_t n = 0;
    for (size_t i = 0; i < packs->n; i++)
        count_resident(packs->path[i], packs->columns_from[i], packs->columns_to[i], &n,
                       n_columns);
    return n;
}

static void drop(const struct packs *packs)
{
    for (size_t i = 0; i < packs->n; i++) {
        int fd = open(packs->path[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
            give_up("%s cannot be dropped from memory", packs->path[i]);
        close(fd);
    }
}

/* The most pages that one of several processes reads, each of another key. */
static void measure_cold(const struct world *w)
{
    enum { TIMES = 15 };
    uint64_t most = 0, n_columns = 0, none = 0;
    struct packs packs = packs_of(w);
    for (int i = 0; i < TIMES; i++) {
        drop(&packs);
        if (resident(&packs, &none) != 0) {
            const char *why = "could not drop pages of files from memory here";
            figure_without("process_cold", why);
            figure_without("process_columns", why);
            return;
        }
        struct words probe = words_of(command, "probe", w->store);
        say_word(&probe, key_text(fresh_negatives(1)));
        process_ns(&probe, w->out, 0);
        words_free(&probe);
        uint64_t n = resident(&packs, &n_columns);
        most = n > most ? n : most;
    }
    figure("process_cold", (double)most, 0, "the most of %d processes, %zu packs",
           TIMES, packs.n);
    figure("process_columns", (double)n_columns, 0, "of all %d", TIMES);
}

void figures_process(void)
{
    struct world w = {.n = bench.sizes.process_segments,
                      .keys_each = bench.sizes.process_keys};
    world_make(&w);
    check_found(&w);
    struct lap laps[] = {{.run = lap_version, .ctx = &w},
                         {.run = lap_probe, .ctx = &w},
                         {.run = lap_grep, .ctx = &w}};
    race(laps, 3, bench.sizes.reps);
    figure("process_version", laps[1].ns / 1e3, laps[0].ns / 1e3,
           "%llu segments of %llu keys, warm", (unsigned long long)w.n,
           (unsigned long long)w.keys_each);
    figure("process_grep", laps[1].ns / 1e3, laps[2].ns / 1e3,
           "%llu KiB of lists, warm",
           (unsigned long long)(w.n * w.keys_each * 16 >> 10));
    measure_cold(&w);
    words_free(&w.grep);
    file_remove(w.out);
    tree_remove(w.store);
    tree_remove(w.lists);
}
