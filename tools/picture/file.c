/* A file that appears whole or not at all. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../open/open.h"
#include "../talk/endings.h"
#include "picture.h"

/* A symbolic link stays: its target is replaced. */
static int replace(const char *path, const char *bytes, size_t n)
{
    char *real = realpath(path, NULL), *temporary;
    mode_t mask = umask(0), mode = 0666 & ~mask;
    struct stat st;
    FILE *to;
    int err = 0, fd;
    umask(mask);
    if (real == NULL)
        real = memory_or_exit(strdup(path));
    if (stat(real, &st) == 0)
        mode = st.st_mode & 0777;
    temporary = memory_or_exit(malloc(strlen(real) + sizeof(".XXXXXX")));
    sprintf(temporary, "%s.XXXXXX", real);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        err = errno;
    } else {
        to = memory_or_exit(fdopen(fd, "w"));
        if (fwrite(bytes, 1, n, to) != n || fflush(to) != 0 || fchmod(fd, mode) != 0 ||
            fsync(fd) != 0)
            err = errno;
        if (fclose(to) != 0 && err == 0)
            err = errno;
        if (err == 0 && rename(temporary, real) != 0)
            err = errno;
        if (err != 0)
            unlink(temporary);
    }
    free(temporary);
    free(real);
    return err;
}

/* By a slip, --svg may name an engine's own file. */
static bool may_replace(const char *path)
{
    char start[5];
    struct stat st;
    int fd;
    if (stat(path, &st) != 0)
        return lstat(path, &st) != 0; /* a link to nothing is no picture */
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return true; /* replace_file() says what else is wrong */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = pread(fd, start, sizeof(start), 0);
    close(fd);
    return (n >= 4 && memcmp(start, "<svg", 4) == 0) ||
           (n == 5 && memcmp(start, "<?xml", 5) == 0);
}

void check_picture(const struct options *o, const char *store, const char *list)
{
    struct stat st, of_list;
    if (!given(o, OPT_SVG) || strcmp(o->svg, "-") == 0)
        return;
    if (list != NULL && stat(o->svg, &st) == 0 &&
        (strcmp(list, "-") == 0 ? fstat(0, &of_list) : stat(list, &of_list)) == 0 &&
        st.st_dev == of_list.st_dev && st.st_ino == of_list.st_ino)
        usage_error("--svg would replace the list of --sizes: name another file");
    char *real = realpath(o->svg, NULL); /* a link's target is replaced */
    if (store != NULL && lies_inside(real ? real : o->svg, store))
        usage_error("--svg names a file inside the store: name one elsewhere");
    free(real);
    if (!may_replace(o->svg))
        usage_error("--svg replaces only an SVG picture, and %s is none: remove it "
                    "first, or name another file",
                    o->svg);
}

/* Puts a whole file in the place of `path`, or leaves it as it is. */
static int replace_file(const char *path, const char *bytes, size_t n)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return print_whole(bytes, n);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return complain(EXIT_USAGE,
                        "%s: not a regular file: name one, or '-' for standard output",
                        path);
    /* A signal leaves the file or none, and no temporary file. All bytes are at hand,
     * so the signal waits for one sync at most. */
    endings_hold();
    int err = replace(path, bytes, n);
    endings_release();
    return err ? complain_errno(err, path, "cannot write") : EXIT_DONE;
}

FILE *drawing_begin(struct drawing *d)
{
    *d = (struct drawing){.bytes = NULL};
    d->to = memory_or_exit(open_memstream(&d->bytes, &d->n));
    return d->to;
}

int drawing_end(struct drawing *d, const char *path)
{
    memory_or_exit(fclose(d->to) == 0 ? d->bytes : NULL);
    int status = replace_file(path, d->bytes, d->n);
    free(d->bytes);
    return status;
}
