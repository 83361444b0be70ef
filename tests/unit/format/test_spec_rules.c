/* The rules and sections of SPEC.md: each rule names a verdict and a field that exist,
 * and format/ cites sections that are there.
 *
 * Usage: test_spec_rules [SPEC.md]. */
#include "tests/unit/format/spec_records.h"

#include <dirent.h>

/* "UNUSED name", or a field alone: RANGE. Where the field begins. */
static const char *after_verdict(const char *cell)
{
    static const char *const names[] = {"SHORT",    "MAGIC",  "VERSION", "CHECKSUM",
                                        "FLAGS",    "UNUSED", "RANGE",   "OVERLAP",
                                        "IDENTITY", "KIND",   "DRAFT"};
    IS(N_OF(names), VERDICT_KIND);
    for (size_t i = 0; i < N_OF(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(cell, names[i], n) == 0 && cell[n] == ' ')
            return cell + n + 1;
    }
    return cell;
}

static bool field_exists(const struct record_table *t, const char *name)
{
    static const char *const whole[] = {"identity", "checksum", "meta", "record",
                                        "listing"};
    for (size_t i = 0; i < *t->n_fields; i++)
        if (strcmp(t->fields[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < N_OF(whole); i++)
        if (strcmp(whole[i], name) == 0)
            return true;
    return false;
}

/* Each rule names a verdict and a field that exist. test_identity, test_commit_rules,
 * test_slots and test_record check that the code keeps to the rules, in their order. */
TEST(rules_name_what_exists)
{
    size_t n_rules = 0;
    for (size_t i = 0; i < N_OF(records); i++) {
        const char *at = spec;
        while ((at = marker(at, "rules", records[i].name))) {
            struct row r;
            assert_true(next_row(&at, &r) && next_row(&at, &r));
            for (; next_row(&at, &r); n_rules++) {
                if (!field_exists(&records[i], after_verdict(r.cell[2])))
                    fail_msg("rule \"%s\": no verdict and field \"%s\"", r.cell[1],
                             r.cell[2]);
            }
        }
    }
    IS(n_rules, 21 + 4 + 13 + 13 + 13 + 26 + 3 + 8 + 4 + 13 + 2 + 2 + 5);
}

/* A letter for each record, and numbers that go on from table to table: I1, I2, ... */
TEST(rules_are_numbered_once)
{
    static const char letters[] = "IFCMSPBXKLNQ";
    uint64_t last[sizeof letters] = {0};
    size_t n_tables = 0;
    for (const char *at = spec; (at = strstr(at, "<!-- rules: ")); n_tables++) {
        struct row r;
        at = strchr(at, '\n') + 1;
        assert_true(next_row(&at, &r) && next_row(&at, &r));
        while (next_row(&at, &r)) {
            const char *letter = strchr(letters, r.cell[0][0]);
            if (!letter || number(r.cell[0] + 1) != ++last[letter - letters])
                fail_msg("rule %s is not the next one", r.cell[0]);
        }
    }
    IS(n_tables, 23);
}

/* The heading "## 4. Geometry" or "### 9.3 ..." of section "4" or "9.3". */
static const char *section(const char *name)
{
    char heading[32];
    bool sub = strchr(name, '.') != NULL;
    snprintf(heading, sizeof heading, sub ? "\n### %s " : "\n## %s. ", name);
    return strstr(spec, heading);
}

/* The section that a citation at p names: "\u00a79.1", "SPEC.md section 8". */
static bool cited(const char *p, char name[8])
{
    static const char sign[] = "\xc2\xa7", words[] = "SPEC.md section";
    name[0] = 0;
    if (strncmp(p, sign, 2) == 0)
        p += 2;
    else if (strncmp(p, words, sizeof words - 1) == 0)
        p += sizeof words - 1 + (p[sizeof words - 1] == 's') + 1;
    else
        return false;
    size_t n = strspn(p, "0123456789.");
    while (n > 0 && p[n - 1] == '.')
        n--;
    if (n == 0 || n > 7)
        return false;
    memcpy(name, p, n);
    name[n] = 0;
    return true;
}

static void check_citations(const char *file, bool header)
{
    char path[512], name[8];
    snprintf(path, sizeof path, TAMIS_SOURCE_DIR "/format/%s", file);
    char *text = read_text(path);
    size_t n_cited = 0;
    for (const char *p = text; *p; p++) {
        if (!cited(p, name))
            continue;
        const char *s = section(name);
        if (!s)
            fail_msg("format/%s cites section %s, which SPEC.md lacks", file, name);
        /* A header's first citation is its own section, which names it back. */
        char back[300];
        snprintf(back, sizeof back, "`format/%s`", file);
        const char *found = strstr(s, back), *end = strstr(s + 1, "\n## ");
        if (header && n_cited == 0 && (!found || (end && found > end)))
            fail_msg("section %s does not name format/%s", name, file);
        n_cited++;
    }
    if (header && n_cited == 0 && strcmp(file, "field.h") != 0)
        fail_msg("format/%s cites no section", file);
    free(text);
}

TEST(sections_are_named_both_ways)
{
    DIR *dir = opendir(TAMIS_SOURCE_DIR "/format");
    assert_non_null(dir);
    size_t n = 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        size_t length = strlen(e->d_name);
        if (length < 3 || e->d_name[0] == '.' || e->d_name[length - 2] != '.')
            continue;
        check_citations(e->d_name, e->d_name[length - 1] == 'h');
        n++;
    }
    closedir(dir);
    assert_true(n >= 14);
    /* And SPEC.md's own cross references lead somewhere. */
    char name[8];
    for (const char *p = spec; *p; p++)
        if (cited(p, name) && !section(name))
            fail_msg("SPEC.md cites section %s, which it lacks", name);
}

RUN_SPEC_TESTS
