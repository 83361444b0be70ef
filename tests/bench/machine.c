/* The machine on which the figures were measured: a ratio travels, but not to every
 * machine. */
#include "tests/bench/bench.h"

#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <sys/utsname.h>

/* The value of the first line of a file of the system that begins with `key`. */
static const char *value_in(const char *path, const char *key)
{
    static char line[512];
    FILE *f = fopen(path, "re");
    char *value = NULL;
    while (f && !value && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) {
            value = *key ? strchr(line, ':') : line;
            value += value && *key ? 1 + strspn(value + 1, " \t") : 0;
        }
    if (f)
        fclose(f);
    if (!value)
        return "unknown";
    value[strcspn(value, "\n")] = 0;
    return value;
}

double number_in(const char *path, const char *key)
{
    char *end;
    const char *value = value_in(path, key);
    double number = strtod(value, &end);
    if (end == value)
        give_up("%s has no number of %s", path, key);
    return number;
}

/* ---- load: a figure of a busy machine is none ---- */

static char notes[2][128]; /* before and after */
static bool busy;

struct ticks {
    unsigned long long idle, all;
};

static struct ticks ticks_now(void)
{
    unsigned long long t[8] = {0};
    struct ticks sum = {0, 0};
    FILE *f = fopen("/proc/stat", "re");
    if (f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1],
                    &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) == 8)
        sum.idle = t[3] + t[4];
    for (int i = 0; i < 8; i++)
        sum.all += t[i];
    if (f)
        fclose(f);
    return sum;
}

/* While this program sleeps no other should run. The load of the last minute would
 * count this program's compilation. */
static bool others_run(void)
{
    struct ticks a = ticks_now();
    usleep(500000);
    struct ticks b = ticks_now();
    return 10 * (b.idle - a.idle) < 9 * (b.all - a.all);
}

void load_note(void)
{
    static unsigned n;
    char *note = notes[n++ % 2];
    snprintf(note, sizeof notes[0], "%s", value_in("/proc/loadavg", ""));
    busy = busy || others_run();
    say("load: %s%s\n", note, busy ? " (others use this machine)" : "");
}

void machine_write(void *file)
{
    struct utsname u;
    struct sysinfo memory;
    struct statfs disk;
    FILE *out = file;
    uname(&u);
    sysinfo(&memory);
    statfs(bench.dir, &disk);
    fprintf(out, "- processor: %s, %ld cores, a cache of %ld MiB\n",
            value_in("/proc/cpuinfo", "model name"), sysconf(_SC_NPROCESSORS_ONLN),
            sysconf(_SC_LEVEL3_CACHE_SIZE) >> 20);
    fprintf(out, "- memory: %llu MiB, pages of %ld bytes, huge pages: %s\n",
            (unsigned long long)memory.totalram * memory.mem_unit >> 20,
            sysconf(_SC_PAGESIZE),
            value_in("/sys/kernel/mm/transparent_hugepage/enabled", ""));
    fprintf(out, "- Linux %s, %s; files on file system 0x%lx\n", u.release, u.machine,
            (unsigned long)disk.f_type);
    fprintf(out, "- tamis %s; compiler %s\n", tamis_version(), __VERSION__);
    for (int i = 0; i < 2; i++)
        fprintf(out, "- load %s: %s\n", i ? "after" : "before", notes[i]);
    if (busy)
        fputs("\n**Others used the machine: these times mean little.**\n", out);
}
