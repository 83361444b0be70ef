/* Files, processes and options of programs that break something (harness.h). */
#include "tests/steps/harness.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

uint8_t *file_bytes(const char *path, size_t *n)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && fstat(fd, &st) == 0, path);
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    must(bytes && pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size, path);
    close(fd);
    *n = (size_t)st.st_size;
    return bytes;
}

void file_put(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n, path);
    close(fd);
}

void file_poke(const char *path, uint64_t at, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, bytes, n, (off_t)at) == (ssize_t)n, path);
    close(fd);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void tree_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct saved_tree *saving;
static size_t saving_from; /* of the paths, the tree's own */

static int save_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)ftw;
    must(saving->n < MAX_SAVED, "a tree of too many files");
    if (strlen(path) <= saving_from)
        return 0;
    struct saved_file *f = &saving->files[saving->n++];
    *f = (struct saved_file){.mode = st->st_mode & 07777};
    snprintf(f->name, sizeof f->name, "%s", path + saving_from + 1);
    if (flag == FTW_F)
        f->bytes = file_bytes(path, &f->n);
    return 0;
}

void tree_save(struct saved_tree *t, const char *path)
{
    tree_forget(t);
    saving = t;
    saving_from = strlen(path);
    must(nftw(path, save_one, 16, FTW_PHYS) == 0, path);
}

void tree_forget(struct saved_tree *t)
{
    while (t->n)
        free(t->files[--t->n].bytes);
}

void file_put_back(const struct saved_file *f, const char *path)
{
    char one[1024];
    snprintf(one, sizeof one, "%s/%s", path, f->name);
    if (f->bytes)
        file_put(one, f->bytes, f->n);
    else
        must(mkdir(one, f->mode) == 0 || errno == EEXIST, one);
    must(chmod(one, f->mode) == 0, one);
}

void tree_put_back(const struct saved_tree *t, const char *path)
{
    must(mkdir(path, 0700) == 0 || errno == EEXIST, path);
    for (size_t i = 0; i < t->n; i++)
        file_put_back(&t->files[i], path);
}

void tree_root(char path[ROOT_BYTES], const char *name)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, ROOT_BYTES, "%.120s/tamis-%.40s.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm"
             : tmp                         ? tmp
                                           : "/tmp",
             name);
    must(mkdtemp(path) != NULL, path);
}

void *memory_shared(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(p != MAP_FAILED, "memory");
    return p;
}

pid_t process_start(unsigned seconds)
{
    fflush(NULL);
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(seconds);
    }
    return pid;
}

int process_end(pid_t pid)
{
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    must(ended == pid, "waitpid");
    return status;
}

void process_silent(void)
{
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
}

static bool usage(const char *program, const struct known_option *known)
{
    fprintf(stderr, "usage: %s", program);
    for (; known->name; known++)
        fprintf(stderr, " [--%s%s]", known->name,
                known->flag     ? ""
                : known->number ? " N"
                                : " TEXT");
    fprintf(stderr, "\n");
    return false;
}

bool options_read(int argc, char **argv, const struct known_option *known)
{
    for (int i = 1; i < argc; i++) {
        const struct known_option *o = known;
        while (o->name &&
               (strncmp(argv[i], "--", 2) != 0 || strcmp(o->name, argv[i] + 2) != 0))
            o++;
        if (!o->name || (!o->flag && ++i == argc))
            return usage(argv[0], known);
        if (o->flag)
            *o->flag = true;
        else if (o->number)
            *o->number = strtoull(argv[i], NULL, 10);
        else
            *o->text = argv[i];
    }
    return true;
}
