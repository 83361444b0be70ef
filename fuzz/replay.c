/* A main for a fuzz target without libFuzzer: runs it over every file of the corpus
 * directories given, in the order of their names, and over some mutations of each by
 * the target's own mutator, the same ones in every run. Any compiler will do.
 *
 *   replay_<target> [--mutations N] PATH...
 *   replay_<target> --shrink FILE      makes an input that kills it smaller
 *
 * The input at work is left in a file while it runs, so that one that kills the program
 * is not lost. */
#include "fuzz/fuzz.h"

enum { MAX_BYTES = 1 << 18 };

/* The bytes at work: shared, so that they outlive the process that died of them. */
static struct at_work {
    size_t n;
    uint8_t bytes[MAX_BYTES];
} * at_work;
static char at_work_path[512];
static unsigned long n_files, n_mutants;

/* Stands in for the function that libFuzzer has. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max)
{
    static uint64_t rng = 7;
    uint64_t what = draw_below(&rng, 4);
    size_t at = draw_below(&rng, n + (what == 0));
    if (what == 0 && n < max) {
        memmove(data + at + 1, data + at, n - at);
        data[at] = (uint8_t)draw(&rng);
        return n + 1;
    }
    if (what == 1 && n > 1) {
        memmove(data + at, data + at + 1, n - at - 1);
        return n - 1;
    }
    if (what > 1 && n)
        data[at] = (uint8_t)(what == 2 ? data[at] ^ UINT64_C(1) << draw_below(&rng, 8)
                                       : draw(&rng));
    return n;
}

/* In a heap block of just its size, so that ASan sees a read beyond it. */
static void run(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    MUST(copy);
    memcpy(copy, bytes, n);
    if (at_work) {
        at_work->n = n;
        memcpy(at_work->bytes, bytes, n);
    }
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void run_file(const char *path, unsigned long mutations)
{
    static uint8_t bytes[MAX_BYTES], mutant[MAX_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (got < 0 || got == (ssize_t)sizeof bytes) {
        fprintf(stderr, "%s: cannot be read, or is too large\n", path);
        exit(2);
    }
    close(fd);
    run(bytes, (size_t)got);
    n_files++;
    memcpy(mutant, bytes, (size_t)got);
    size_t n = (size_t)got, max = n + 4096 < MAX_BYTES ? n + 4096 : MAX_BYTES;
    for (unsigned long i = 0; i < mutations; i++, n_mutants++) {
        if (i % 4 == 0) { /* four changes on top of each other, then afresh */
            memcpy(mutant, bytes, (size_t)got);
            n = (size_t)got;
        }
        n = LLVMFuzzerCustomMutator(mutant, n, max, (unsigned)(n_files * 1000003 + i));
        run(mutant, n);
    }
}

/* ---- an input that kills, made smaller ---- */

static bool kills(const uint8_t *bytes, size_t n)
{
    enum { SECONDS = 20 };
    int status;
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDERR_FILENO);
        alarm(SECONDS);
        run(bytes, n);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && status != 0 &&
           !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

/* Without pieces of it, ever smaller ones. */
static void shrink(const char *path)
{
    static uint8_t bytes[MAX_BYTES], less[MAX_BYTES];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    MUST(got >= 0);
    size_t n = (size_t)got;
    for (size_t piece = n / 4 * 2; piece; piece /= 2)
        for (size_t at = 0; at + piece <= n;) {
            memcpy(less, bytes, at);
            memcpy(less + at, bytes + at + piece, n - at - piece);
            if (kills(less, n - piece))
                memcpy(bytes, less, n -= piece);
            else
                at += piece;
        }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
    close(fd);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void run_path(const char *path, unsigned long mutations)
{
    struct dirent **names;
    char file[1024];
    int n = scandir(path, &names, visible, alphasort);
    if (n < 0) {
        run_file(path, mutations);
        return;
    }
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        run_file(file, mutations);
        free(names[i]);
    }
    free(names);
}

/* replay.sh names the file; without it nothing is kept. */
static void keep_work(void)
{
    const char *path = getenv("FUZZ_AT_WORK");
    if (!path)
        return;
    snprintf(at_work_path, sizeof at_work_path, "%s", path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof *at_work) != 0) {
        perror(path);
        exit(2);
    }
    at_work = mmap(NULL, sizeof *at_work, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at_work == MAP_FAILED) {
        perror(path);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    unsigned long mutations = 0;
    int i = 1;
    if (argc > 2 && strcmp(argv[1], "--mutations") == 0) {
        mutations = strtoul(argv[2], NULL, 10);
        i = 3;
    }
    if (argc > 2 && strcmp(argv[1], "--shrink") == 0) {
        shrink(argv[2]);
        return 0;
    }
    keep_work();
    for (; i < argc; i++)
        run_path(argv[i], mutations);
    if (at_work)
        unlink(at_work_path);
    printf("%lu inputs, %lu mutations\n", n_files, n_mutants);
    return n_files ? 0 : 2;
}
