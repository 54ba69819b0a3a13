/* SPDX-License-Identifier: Apache-2.0 */
/* Completions for bash, zsh and fish, from the tables. */
#include <stdio.h>
#include <string.h>

#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

/* Runs are asked for when they are completed; without a store there are none. */
#define RUN_NAMES "divergectl runs --names 2>/dev/null"

static const char *words_of(const struct cmd *cmd)
{
    const char *words = "";

    for (size_t i = 0; cmd->actions && cmd->actions[i]; i++)
        words = mem_printf("%s%s%s", words, i ? " " : "", cmd->actions[i]);
    return words;
}

static const char *command_names(void)
{
    const char *words = "";

    for (size_t i = 0; cmd_all[i]; i++)
        words = mem_printf("%s%s%s", words, i ? " " : "", cmd_all[i]->name);
    return words;
}

/* `text` for inside single quotes of a shell. */
static const char *quoted(const char *text)
{
    const char *out = "";

    for (; *text; text++)
        out = *text == '\'' ? mem_printf("%s'\\''", out) : mem_printf("%s%c", out, *text);
    return out;
}

static bool has_option(const struct cmd *cmd, const struct cmd_option *option)
{
    return cmd->json || strcmp(option->name, "json") != 0;
}

/* ---- bash ----------------------------------------------------------------------------------- */

static const char *bash_action(enum cmd_words words, const char *list)
{
    switch (words) {
    case CMD_WORDS_NONE:
        break;
    case CMD_WORDS_FILE:
        return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case CMD_WORDS_RUN:
        return "COMPREPLY=($(compgen -W \"$(" RUN_NAMES ")\" -- \"$cur\"))";
    case CMD_WORDS_RUN_OR_FILE:
        return "COMPREPLY=($(compgen -W \"$(" RUN_NAMES ")\" -- \"$cur\") "
               "$(compgen -f -- \"$cur\"))";
    case CMD_WORDS_PROGRAM:
        return "COMPREPLY=($(compgen -c -f -- \"$cur\"))";
    case CMD_WORDS_ACTION:
    case CMD_WORDS_COMMAND:
        return mem_printf("COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))", list);
    }
    return "COMPREPLY=()";
}

static const char *choices_of(const struct cmd_option *option)
{
    const char *words = "";

    for (size_t i = 0; option->choices && option->choices[i]; i++)
        words = mem_printf("%s%s%s", words, i ? " " : "", option->choices[i]);
    return words;
}

static void bash_option_values(const char *command, const struct cmd_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!options[i].argument)
            continue;
        printf("    %s:--%s) %s; return ;;\n", command, options[i].name,
               options[i].choices ? bash_action(CMD_WORDS_ACTION, choices_of(&options[i]))
                                  : bash_action(options[i].words, ""));
    }
}

static void bash_options(const struct cmd *cmd)
{
    printf("    %s) options=\"", cmd->name);
    for (size_t i = 0; i < cmd->n_options; i++)
        printf("--%s ", cmd->options[i].name);
    for (size_t i = 0; i < cmd_n_global_options; i++)
        if (has_option(cmd, &cmd_global_options[i]))
            printf("--%s ", cmd_global_options[i].name);
    puts("\" ;;");
}

static void bash_words(const struct cmd *cmd)
{
    printf(
        "    %s) %s ;;\n", cmd->name,
        bash_action(cmd->words, cmd->words == CMD_WORDS_COMMAND ? command_names() : words_of(cmd)));
}

static void print_bash(void)
{
    printf("# bash completion for divergectl; made by divergectl --print-completion bash\n"
           "_divergectl()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command= options= word\n"
           "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "        case \" %s \" in *\" $word \"*) command=$word; break ;; esac\n"
           "    done\n    COMPREPLY=()\n    case \"$command:$prev\" in\n",
           command_names());
    for (size_t i = 0; cmd_all[i]; i++)
        bash_option_values(cmd_all[i]->name, cmd_all[i]->options, cmd_all[i]->n_options);
    bash_option_values("*", cmd_global_options, cmd_n_global_options);
    printf("    esac\n    case \"$command\" in\n    '') options=\"");
    for (size_t i = 0; i < cmd_n_global_options; i++)
        printf("--%s ", cmd_global_options[i].name);
    puts("\" ;;");
    for (size_t i = 0; cmd_all[i]; i++)
        bash_options(cmd_all[i]);
    printf("    esac\n    if [[ $cur == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n        return\n    fi\n"
           "    case \"$command\" in\n    '') %s ;;\n",
           bash_action(CMD_WORDS_COMMAND, command_names()));
    for (size_t i = 0; cmd_all[i]; i++)
        bash_words(cmd_all[i]);
    puts("    esac\n}\ncomplete -o filenames -F _divergectl divergectl");
}

/* ---- zsh ------------------------------------------------------------------------------------ */

static const char *zsh_action(enum cmd_words words, const char *list)
{
    switch (words) {
    case CMD_WORDS_NONE:
        break;
    case CMD_WORDS_FILE:
        return "_files";
    case CMD_WORDS_RUN:
        return "_divergectl_runs";
    case CMD_WORDS_RUN_OR_FILE:
        return "{_divergectl_runs; _files}";
    case CMD_WORDS_PROGRAM:
        return "_normal";
    case CMD_WORDS_ACTION:
    case CMD_WORDS_COMMAND:
        return mem_printf("(%s)", list);
    }
    return " ";
}

/* Brackets and colons have a meaning inside a specification. */
static const char *zsh_text(const char *text)
{
    const char *out = "";

    for (; *text; text++)
        out = strchr("[]:\\", *text) ? mem_printf("%s\\%c", out, *text)
                                     : mem_printf("%s%c", out, *text);
    return quoted(out);
}

static void zsh_option(const struct cmd_option *option)
{
    printf(" \\\n        '--%s%s[%s]", option->name, option->argument ? "=" : "",
           zsh_text(option->help));
    if (option->argument)
        printf(":%s:%s", zsh_text(option->argument),
               option->choices ? zsh_action(CMD_WORDS_ACTION, choices_of(option))
                               : zsh_action(option->words, ""));
    putchar('\'');
}

static void zsh_command(const struct cmd *cmd)
{
    printf("    %s) _arguments", cmd->name);
    for (size_t i = 0; i < cmd->n_options; i++)
        zsh_option(&cmd->options[i]);
    for (size_t i = 0; i < cmd_n_global_options; i++)
        if (has_option(cmd, &cmd_global_options[i]))
            zsh_option(&cmd_global_options[i]);
    if (cmd->max_arguments)
        printf(" \\\n        '*%s:%s:%s'", cmd->words == CMD_WORDS_PROGRAM ? ":" : "",
               zsh_text(cmd->synopsis),
               zsh_action(cmd->words,
                          cmd->words == CMD_WORDS_COMMAND ? command_names() : words_of(cmd)));
    puts(" ;;");
}

static void print_zsh(void)
{
    puts("#compdef divergectl\n"
         "# zsh completion for divergectl; made by divergectl --print-completion zsh\n"
         "_divergectl_runs() {\n    local -a names\n    names=(${(f)\"$(" RUN_NAMES ")\"})\n"
         "    compadd -a names\n}\n"
         "_divergectl() {\n    local -a commands\n    local state line\n    commands=(");
    for (size_t i = 0; cmd_all[i]; i++)
        printf("        '%s:%s'\n", cmd_all[i]->name, zsh_text(cmd_all[i]->summary));
    fputs("    )\n    _arguments -C", stdout);
    for (size_t i = 0; i < cmd_n_global_options; i++)
        zsh_option(&cmd_global_options[i]);
    puts(" \\\n        '1:command:->command' '*::argument:->argument'\n"
         "    case $state in\n    command) _describe command commands ;;\n"
         "    argument) case $line[1] in");
    for (size_t i = 0; cmd_all[i]; i++)
        zsh_command(cmd_all[i]);
    puts("    esac ;;\n    esac\n}\n_divergectl \"$@\"");
}

/* ---- fish ----------------------------------------------------------------------------------- */

/* In fish's single quotes a backslash escapes. */
static const char *fish_text(const char *text)
{
    const char *out = "";

    for (; *text; text++)
        out = *text == '\'' || *text == '\\' ? mem_printf("%s\\%c", out, *text)
                                             : mem_printf("%s%c", out, *text);
    return out;
}

static void fish_option(const char *command, const struct cmd_option *option)
{
    fputs("complete -c divergectl", stdout);
    if (command)
        printf(" -n '__fish_seen_subcommand_from %s'", command);
    if (option->letter)
        printf(" -s %c", option->letter);
    printf(" -l %s -d '%s'", option->name, fish_text(option->help));
    if (option->choices)
        printf(" -x -a '%s'", choices_of(option));
    else if (option->words == CMD_WORDS_RUN)
        printf(" -x -a '(" RUN_NAMES ")'");
    else if (option->argument)
        fputs(option->words == CMD_WORDS_FILE ? " -r -F" : " -x", stdout);
    putchar('\n');
}

static void fish_arguments(const struct cmd *cmd)
{
    printf("complete -c divergectl -n '__fish_seen_subcommand_from %s'", cmd->name);
    switch (cmd->words) {
    case CMD_WORDS_NONE:
        fputs(" -f", stdout);
        break;
    case CMD_WORDS_FILE:
        fputs(" -F", stdout);
        break;
    case CMD_WORDS_RUN:
        fputs(" -f -a '(" RUN_NAMES ")'", stdout);
        break;
    case CMD_WORDS_RUN_OR_FILE:
        fputs(" -F -a '(" RUN_NAMES ")'", stdout);
        break;
    case CMD_WORDS_ACTION:
        printf(" -f -a '%s'", words_of(cmd));
        break;
    case CMD_WORDS_COMMAND:
        printf(" -f -a '%s'", command_names());
        break;
    case CMD_WORDS_PROGRAM:
        fputs(" -x -a '(__fish_complete_subcommand)'", stdout);
        break;
    }
    putchar('\n');
}

static void print_fish(void)
{
    puts("# fish completion for divergectl; made by divergectl --print-completion fish");
    for (size_t i = 0; cmd_all[i]; i++)
        printf("complete -c divergectl -f -n __fish_use_subcommand -a %s -d '%s'\n",
               cmd_all[i]->name, fish_text(cmd_all[i]->summary));
    for (size_t i = 0; i < cmd_n_global_options; i++)
        fish_option(NULL, &cmd_global_options[i]);
    for (size_t i = 0; cmd_all[i]; i++) {
        fish_arguments(cmd_all[i]);
        for (size_t j = 0; j < cmd_all[i]->n_options; j++)
            fish_option(cmd_all[i]->name, &cmd_all[i]->options[j]);
    }
}

int help_completion(const char *shell)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};

    if (!strcmp(shell, "bash"))
        print_bash();
    else if (!strcmp(shell, "zsh"))
        print_zsh();
    else if (!strcmp(shell, "fish"))
        print_fish();
    else
        return ctl_fail(EX_USAGE, "--print-completion takes %s",
                        text_alternatives(shells, CMD_COUNT(shells)));
    return EX_OK;
}
