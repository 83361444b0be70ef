/* The machine on which the figures were measured: a ratio travels, but not to every
 * machine. */
#include "tests/bench/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

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

double memory_bytes(const char *field)
{
    return strtod(value_in("/proc/self/smaps_rollup", field), NULL) * 1024;
}

/* The type of the file system that holds `dir`: the longest mount point of it. */
static void file_system(const char *dir, char *type, size_t n_bytes)
{
    char real[4096], mount[4096], name[64];
    size_t best = 0;
    FILE *f = fopen("/proc/self/mounts", "re");
    snprintf(type, n_bytes, "unknown");
    if (!f || !realpath(dir, real)) {
        if (f)
            fclose(f);
        return;
    }
    while (fscanf(f, "%*s %4095s %63s %*[^\n]", mount, name) == 2) {
        size_t n = strlen(mount);
        bool inside =
            strncmp(real, mount, n) == 0 && (n == 1 || real[n] == '/' || real[n] == 0);
        if (inside && n >= best) {
            best = n;
            snprintf(type, n_bytes, "%s", name);
        }
    }
    fclose(f);
}

static void text(json_t *object, const char *name, const char *value)
{
    json_object_set_new(object, name, json_string(value));
}

static void number(json_t *object, const char *name, json_int_t value)
{
    json_object_set_new(object, name, json_integer(value));
}

json_t *machine_facts(void)
{
    struct utsname u;
    struct sysinfo memory;
    char type[64];
    json_t *m = json_object();
    uname(&u);
    sysinfo(&memory);
    file_system(bench.dir, type, sizeof type);
    text(m, "processor", value_in("/proc/cpuinfo", "model name"));
    text(m, "kernel", u.release);
    text(m, "machine", u.machine);
    text(m, "file_system", type);
    text(m, "huge_pages", value_in("/sys/kernel/mm/transparent_hugepage/enabled", ""));
    text(m, "tamis", tamis_version());
    text(m, "tamis_kernel", tamis_kernel_name());
    number(m, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    number(m, "page_bytes", sysconf(_SC_PAGESIZE));
    number(m, "cache_bytes", sysconf(_SC_LEVEL3_CACHE_SIZE));
    number(m, "memory_bytes", (json_int_t)(memory.totalram * memory.mem_unit));
    return m;
}

/* ---- load: a figure of a busy machine is none ---- */

static json_t *notes;
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

/* While this program sleeps nobody else should run; the load of the last minute would
 * count its own compilation. */
static bool others_run(void)
{
    struct ticks a = ticks_now();
    usleep(500000);
    struct ticks b = ticks_now();
    return 10 * (b.idle - a.idle) < 9 * (b.all - a.all);
}

void load_note(const char *when)
{
    char words[128];
    snprintf(words, sizeof words, "%s", value_in("/proc/loadavg", ""));
    if (!notes)
        notes = json_object();
    busy = busy || others_run();
    json_object_set_new(notes, when, json_string(words));
    say("load %s: %s%s\n", when, words,
        busy ? " (others use this machine: the figures mean little)" : "");
}

json_t *load_notes(void)
{
    return notes ? json_incref(notes) : json_object();
}

bool machine_busy(void)
{
    return busy;
}
