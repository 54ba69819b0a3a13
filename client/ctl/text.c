/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/text.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include <diverge/fingerprint.h>

#include "client/ctl/mem.h"

static bool colored;
static bool utf8 = true;
static int columns;

static int terminal_columns(void)
{
    const char *set = getenv("COLUMNS");
    struct winsize size;
    uint64_t wanted = 0;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col < 40 ? 40 : size.ws_col;
    if (!set || text_parse_u64(set, &wanted) || wanted < 40 || wanted >= 10000)
        return 0;
    return (int)wanted;
}

void text_init(const char *color)
{
    const char *none = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    /*
     * Names are UTF-8 throughout; a bare environment ("C"), or a locale that is not there or finds
     * no memory, says nothing against showing them.
     */
    const char *locale = setlocale(LC_CTYPE, "");
    bool bare = !locale || !strcmp(locale, "C") || !strcmp(locale, "POSIX");
    if (bare)
        setlocale(LC_CTYPE, "C.UTF-8");
    utf8 = bare || !strcmp(nl_langinfo(CODESET), "UTF-8");
    columns = terminal_columns();
    if (color && !strcmp(color, "always"))
        colored = true;
    else if (color && !strcmp(color, "never"))
        colored = false;
    else
        colored =
            isatty(STDOUT_FILENO) && !(none && *none) && !(terminal && !strcmp(terminal, "dumb"));
}

bool text_is_utf8(void)
{
    return utf8;
}

int text_width(void)
{
    return columns;
}

const char *text_style(enum text_style style)
{
    static const char *const codes[] = {
        [TEXT_PLAIN] = "\033[0m", [TEXT_BOLD] = "\033[1m", [TEXT_GOOD] = "\033[32m",
        [TEXT_BAD] = "\033[31m",  [TEXT_DIM] = "\033[2m",
    };

    return colored ? codes[style] : "";
}

/* ---- escaping ------------------------------------------------------------------------------- */

/* Decodes one character: its bytes, or 0 when they are not UTF-8. */
static size_t utf8_decode(const unsigned char *s, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80             ? 1
               : (s[0] & 0xe0) == 0xc0 ? 2
               : (s[0] & 0xf0) == 0xe0 ? 3
               : (s[0] & 0xf8) == 0xf0 ? 4
                                       : 0;

    if (!n)
        return 0;
    uint32_t c = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) /* stops at the NUL too */
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *ret = c;
    return n;
}

/* Characters that change how the rest of a line looks, or cannot be seen at all. */
static bool is_hostile(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe0fff) || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
}

static bool needs_escape(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++)
        if (*s < 0x20 || *s >= 0x7f)
            return true;
    return false;
}

const char *text_escape(const char *text)
{
    if (!needs_escape(text))
        return text;
    const unsigned char *s = (const unsigned char *)text;
    char *out = mem_alloc(strlen(text) * 10 + 1);
    char *to = out;

    while (*s) {
        uint32_t c = 0;
        size_t n = utf8_decode(s, &c);

        if (!n)
            to += sprintf(to, "\\x%02x", *s);
        else if (c == '\n' || c == '\t' || c == '\r')
            to += sprintf(to, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (c < 0x80 && is_hostile(c))
            to += sprintf(to, "\\x%02x", c);
        else if (is_hostile(c) || (c >= 0x80 && !utf8))
            to += sprintf(to, "\\u{%x}", c);
        else {
            memcpy(to, s, n);
            to += n;
        }
        s += n ? n : 1;
    }
    *to = '\0';
    return out;
}

/* ---- numbers -------------------------------------------------------------------------------- */

const char *text_count(uint64_t n)
{
    char digits[24];
    char grouped[32];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
    size_t to = 0;

    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            grouped[to++] = ' ';
        grouped[to++] = digits[i];
    }
    return mem_copy(grouped, to);
}

const char *text_things(uint64_t n, const char *one)
{
    size_t length = strlen(one);

    if (n == 1)
        return mem_printf("1 %s", one);
    if (length > 1 && one[length - 1] == 'y' && !strchr("aeiou", one[length - 2]))
        return mem_printf("%s %.*sies", text_count(n), (int)length - 1, one);
    return mem_printf("%s %ss", text_count(n), one);
}

const char *text_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

    if (bytes < 1024)
        return mem_printf("%" PRIu64 " B", bytes);
    double value = (double)bytes / 1024;
    size_t unit = 0;

    /* 1023.96 would be shown as 1024.0 */
    while (value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    return mem_printf("%.1f %s", value, units[unit]);
}

const char *text_duration(uint64_t ms)
{
    uint64_t s = ms / 1000;

    if (ms < 1000)
        return mem_printf("%" PRIu64 " ms", ms);
    if (s < 60)
        return mem_printf("%" PRIu64 " s", s);
    if (s < 3600)
        return s % 60 ? mem_printf("%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60)
                      : mem_printf("%" PRIu64 " min", s / 60);
    if (s < 86400)
        return mem_printf("%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    return mem_printf("%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
}

const char *text_time(int64_t unix_us)
{
    time_t seconds = (time_t)(unix_us / 1000000);
    struct tm local;
    char text[64];

    if (!unix_us || !localtime_r(&seconds, &local) ||
        !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local))
        return "";
    return mem_string(text);
}

const char *text_number(double value)
{
    if (isnan(value))
        return "nan"; /* whatever its sign bit */
    return mem_printf("%.6g", value);
}

const char *text_exact(double value)
{
    char text[40];

    if (isnan(value))
        return "nan";
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return mem_string(text);
}

const char *text_checksum(uint64_t checksum)
{
    return mem_printf("%016" PRIx64, checksum);
}

const char *text_id(const uint8_t id[16])
{
    char text[33];

    for (int i = 0; i < 16; i++)
        sprintf(text + 2 * i, "%02x", id[i]);
    return mem_string(text);
}

/* ---- words ---------------------------------------------------------------------------------- */

const char *text_shape(enum diverge_dtype dtype, int32_t ndim, const int64_t *sizes)
{
    const char *name = diverge_dtype_name(dtype);
    const char *text = mem_printf("%s[", name ? name : "?");

    for (int32_t i = 0; i < ndim; i++)
        text = mem_printf("%s%s%" PRId64, text, i ? "," : "", sizes[i]);
    return mem_printf("%s]", text);
}

const char *text_segment(uint64_t segment)
{
    if (segment == 0)
        return "init";
    return segment % 2 ? mem_printf("boundary %" PRIu64, segment / 2)
                       : mem_printf("step %" PRIu64, segment / 2 - 1);
}

#define X(number, NAME, name) [number] = name,
static const char *const phases[] = {DIVERGE_PHASES(X)};
static const char *const roles[] = {DIVERGE_ROLES(X)};
static const char *const tiers[] = {DIVERGE_TIERS(X)};
#undef X

const char *text_phase(enum diverge_phase phase)
{
    return (unsigned)phase < DIVERGE_PHASE_COUNT ? phases[phase] : "?";
}

const char *text_role(enum diverge_role role)
{
    return (unsigned)role < DIVERGE_ROLE_COUNT ? roles[role] : "?";
}

const char *text_tier(unsigned tier)
{
    return tier < DIVERGE_TIER_COUNT ? tiers[tier] : "?";
}

/* A finite small float: 1 sign bit, `e` exponent bits, `m` mantissa bits. */
static double small_float(uint64_t bits, int e, int m, int bias)
{
    uint64_t exponent = bits >> m & ((UINT64_C(1) << e) - 1);
    double mantissa = (double)(bits & ((UINT64_C(1) << m) - 1));
    double value = exponent ? ldexp(mantissa + ldexp(1, m), (int)exponent - bias - m)
                            : ldexp(mantissa, 1 - bias - m);

    return bits >> (e + m) & 1 ? -value : value;
}

static double value_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;

    memcpy(&value, &low, sizeof(value));
    return value;
}

static double value_f64(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

double text_value(enum diverge_dtype dtype, uint64_t bits)
{
    switch (dtype) {
    case DIVERGE_I8:
        return (int8_t)bits;
    case DIVERGE_I16:
        return (int16_t)bits;
    case DIVERGE_I32:
        return (int32_t)bits;
    case DIVERGE_I64:
        return (double)(int64_t)bits;
    case DIVERGE_BOOL:
    case DIVERGE_U8:
    case DIVERGE_U16:
    case DIVERGE_U32:
    case DIVERGE_U64:
        return (double)bits;
    case DIVERGE_F16:
        return small_float(bits, 5, 10, 15);
    case DIVERGE_BF16:
        return small_float(bits, 8, 7, 127);
    case DIVERGE_F32:
    case DIVERGE_C64:
        return value_f32(bits);
    case DIVERGE_F64:
    case DIVERGE_C128:
        return value_f64(bits);
    case DIVERGE_F8E4M3FN:
        return small_float(bits, 4, 3, 7);
    case DIVERGE_F8E5M2:
        return small_float(bits, 5, 2, 15);
    case DIVERGE_F8E4M3FNUZ:
        return small_float(bits, 4, 3, 8);
    case DIVERGE_F8E5M2FNUZ:
        return small_float(bits, 5, 2, 16);
    case DIVERGE_OPAQUE:
        return NAN;
    }
    return NAN;
}

bool text_dtype_is_integer(enum diverge_dtype dtype)
{
    return dtype >= DIVERGE_BOOL && dtype <= DIVERGE_I64;
}

const char *text_alternatives(const char *const *words, size_t count)
{
    const char *text = count ? words[0] : "";

    for (size_t i = 1; i < count; i++)
        text = mem_printf("%s%s%s", text, i + 1 == count ? " or " : ", ", words[i]);
    return text;
}

/* ---- layout --------------------------------------------------------------------------------- */

/* Columns of `size` bytes of UTF-8. */
static int width_of(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    int width = 0;

    for (size_t i = 0; i < size;) {
        uint32_t c = 0;
        size_t n = utf8_decode(s + i, &c);
        int w = n ? wcwidth((wchar_t)c) : 1;

        if (s[i] == '\033') { /* a style: no width */
            while (i < size && s[i] != 'm')
                i++;
            w = 0;
            n = 1;
        }
        width += w < 0 ? 1 : w;
        i += n ? n : 1;
    }
    return width;
}

int text_columns(const char *text)
{
    return width_of(text, strlen(text));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of the word that starts at `s`: a space, but none inside a grouped number. */
static size_t word_end(const char *s)
{
    size_t i = 0;

    for (; s[i]; i++) {
        if (s[i] != ' ' || !i)
            continue;
        bool grouped =
            is_digit(s[i - 1]) && is_digit(s[i + 1]) && is_digit(s[i + 2]) && is_digit(s[i + 3]);
        if (!grouped)
            break;
    }
    return i;
}

void text_wrap(FILE *file, const char *label, int indent, const char *text, int width)
{
    int column = text_columns(label);
    bool fresh = true; /* nothing on this line behind the label or indent yet */

    fputs(label, file);
    while (*text) {
        size_t spaces = strspn(text, " ");
        size_t length = word_end(text + spaces);
        int word = width_of(text + spaces, length);

        if (width && !fresh && column + (int)spaces + word > width) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
            spaces = spaces && length ? 0 : spaces;
        } else if (length) {
            fprintf(file, "%*s", (int)spaces, "");
            column += (int)spaces;
        }
        text += strspn(text, " ");
        fwrite(text, 1, length, file);
        column += word;
        text += length;
        fresh = false;
    }
    fputc('\n', file);
}

int text_parse_u64(const char *text, uint64_t *ret)
{
    char *end = NULL;

    if (!is_digit(*text))
        return DIVERGE_EINVAL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);

    if (*end)
        return DIVERGE_EINVAL;
    if (errno)
        return DIVERGE_ELIMIT;
    *ret = value;
    return 0;
}

/* ---- did you mean --------------------------------------------------------------------------- */

enum { DISTANCE_MAX = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t text_distance(const char *a, const char *b)
{
    size_t row[3][DISTANCE_MAX + 1];
    size_t na = strlen(a);
    size_t nb = strlen(b);

    if (na > DISTANCE_MAX || nb > DISTANCE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3];
        const size_t *one = row[(i - 1) % 3];
        const size_t *two = row[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least(least(one[j], now[j - 1]) + 1, one[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], two[j - 2] + 1);
        }
    }
    return row[na % 3][nb];
}

const char *text_nearest(const char *word, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(word) / 3 + 1;

    for (size_t i = 0; i < count; i++) {
        size_t distance = text_distance(word, words[i]);

        if (distance <= best && (!nearest || distance < best)) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}
