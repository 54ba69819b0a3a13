/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/map.h"

#include <string.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/source.h"
#include "client/ctl/text.h"

enum { MAP_MAX = 4096 }; /* pairs */

/* Splits one line into its words: how many, at most 3. */
static int split(char *line, const char *words[3])
{
    char *rest = NULL;
    int count = 0;

    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r", &rest); word && count < 3;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    return count;
}

int map_read(const char *path, const char *const (**ret)[2], size_t *ret_count)
{
    struct dvg_bytes file;
    const char *words[3];
    size_t count = 0;
    int status = source_map(path, &file);

    if (status)
        return status;
    const char *(*pairs)[2] = mem_alloc(MAP_MAX * sizeof(*pairs));
    char *text = mem_copy(file.data, file.size);
    char *rest = text;
    char *line;

    if (memchr(text, '\0', file.size))
        return ctl_fail(EX_DATAERR, "%s is not a text file", text_escape(path));
    for (int number = 1; (line = strsep(&rest, "\n")); number++) {
        int found = split(line, words);

        if (!found)
            continue;
        if (found != 2)
            return ctl_fail(EX_DATAERR, "%s, line %d: two words are wanted, FROM and TO",
                            text_escape(path), number);
        if (count == MAP_MAX)
            return ctl_fail(EX_DATAERR, "%s has more than %d lines", text_escape(path), MAP_MAX);
        pairs[count][0] = words[0];
        pairs[count][1] = words[1];
        count++;
    }
    *ret = (const char *const(*)[2])pairs;
    *ret_count = count;
    return EX_OK;
}
