/* SPDX-License-Identifier: Apache-2.0
 *
 * slinky-log DAEMON PROGRAM [ARGUMENT...]   run a daemon and print its output as JSON lines
 * slinky-log DAEMON < FILE                  print lines as JSON lines
 *
 * Slurm has no structured log format (26.05). Each line becomes one object with time, level, daemon, cluster, node, job
 * (where the line names one) and message:
 *
 *   SLINKY_LOG_FORMAT  "plain" runs the program, or copies the lines, unchanged
 *   SLINKY_CLUSTER     name of the cluster; left out if empty
 *
 * Three processes: this one forwards signals to the daemon and ends with its exit code; the daemon writes into a pipe;
 * a filter reads the pipe. This process reads nothing, so that no line can harm it. It keeps the reading end of the pipe
 * open and replaces a filter that dies, so that the daemon never notices. After the daemon has ended, the filter prints
 * what is left in the pipe; it does not wait for the end of the pipe, which processes of jobs may hold open.
 *
 * No byte is dropped: bytes that are not UTF-8 are printed as \xNN. A line is printed as soon as it is complete.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A longer line is printed in parts. Every byte needs at most six in JSON. */
#define LONGEST_LINE (32 * 1024)
#define HEAD (4 * 1024)
/* Seconds that the filter may take to print what is left when the daemon has ended. */
#define DRAIN_SECONDS 5
/* How often the filter may be killed meanwhile before what is left is given up. */
#define MOST_KILLS 3

static char output[6 * LONGEST_LINE + HEAD];
static size_t used;
static const char *daemon_name, *cluster;
static char node[256];
static volatile sig_atomic_t daemon_ended;

static void append(const char *text, size_t length)
{
	memcpy(output + used, text, length);
	used += length;
}

static void append_text(const char *text)
{
	append(text, strlen(text));
}

/* The number of bytes of the UTF-8 character at `text`; 0 if there is none. */
static size_t utf8_length(const unsigned char *text, size_t left)
{
	size_t length = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : text[0] < 0xf5 ? 4 : 0;

	if (length > left)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return length;
}

static void append_quoted(const char *text, size_t length)
{
	const unsigned char *bytes = (const unsigned char *)text;
	char escape[8];

	append("\"", 1);
	for (size_t i = 0, step; i < length; i += step ? step : 1) {
		step = utf8_length(bytes + i, length - i);
		if (step == 0)
			append(escape, snprintf(escape, sizeof(escape), "\\\\x%02x", bytes[i]));
		else if (bytes[i] == '"' || bytes[i] == '\\')
			append(escape, snprintf(escape, sizeof(escape), "\\%c", bytes[i]));
		else if (bytes[i] < 0x20 || bytes[i] == 0x7f)
			append(escape, snprintf(escape, sizeof(escape), "\\u%04x", bytes[i]));
		else
			append(text + i, step);
	}
	append("\"", 1);
}

/* Skip the time in brackets before a line, and store it; false if there is none that can be read. */
static bool take_time(const char **line, const char *end, struct timespec *when)
{
	struct tm local = { .tm_isdst = -1 };
	const char *close = memchr(*line, ']', end - *line);
	char text[48], *rest;

	if (**line != '[' || !close || close - *line - 1 >= (long)sizeof(text))
		return false;
	memcpy(text, *line + 1, close - *line - 1);
	text[close - *line - 1] = '\0';
	rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &local);
	if (!rest)
		return false;
	when->tv_sec = mktime(&local);
	when->tv_nsec = *rest == '.' ? strtol(rest + 1, NULL, 10) * 1000000L : 0;
	*line = close + 1;
	while (*line < end && **line == ' ')
		++*line;
	return true;
}

static bool take_word(const char **line, const char *end, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(end - *line) < length || strncmp(*line, word, length) != 0)
		return false;
	*line += length;
	while (*line < end && **line == ' ')
		++*line;
	return true;
}

/* The level at the start of a line; Slurm writes none for information. */
static const char *take_level(const char **line, const char *end)
{
	static const char *const levels[] = { "fatal", "error", "warning", "verbose", "debug5",
					      "debug4", "debug3", "debug2", "debug", NULL };
	char word[16];

	for (const char *const *level = levels; *level; level++) {
		snprintf(word, sizeof(word), "%s:", *level);
		if (take_word(line, end, word))
			return *level;
	}
	return "info";
}

/* The job that a line names: `[12.batch] ...` of a step, or `JobId=12`. */
static size_t find_job(const char *line, const char *end, const char **job)
{
	static const char mark[] = "JobId=";
	const char *start = NULL;
	size_t length = 0;

	if (line < end && *line == '[')
		start = line + 1;
	else if ((start = memmem(line, end - line, mark, sizeof(mark) - 1)))
		start += sizeof(mark) - 1;
	while (start && start + length < end && start[length] >= '0' && start[length] <= '9')
		length++;
	if (start && *line == '[' && (start + length >= end || start[length] != '.'))
		return 0;
	for (; length > 1 && *start == '0'; length--)
		start++;
	*job = start;
	return length;
}

static bool print_all(const char *text, size_t length)
{
	while (length > 0) {
		ssize_t count = write(STDOUT_FILENO, text, length);

		if (count < 0 && errno == EAGAIN)
			poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, -1);
		else if (count < 0 && errno != EINTR)
			return false;
		else if (count > 0) {
			text += count;
			length -= count;
		}
	}
	return true;
}

static bool print_line(const char *line, size_t length)
{
	const char *end = line + length, *level, *job = NULL;
	char prefix[300], text[64];
	struct timespec when;
	size_t digits;
	struct tm utc;

	while (end > line && (end[-1] == '\r' || end[-1] == ' '))
		end--;
	if (end == line)
		return true;
	clock_gettime(CLOCK_REALTIME, &when);
	snprintf(prefix, sizeof(prefix), "%s:", daemon_name);
	take_word(&line, end, prefix);
	take_time(&line, end, &when);
	take_word(&line, end, prefix);
	level = take_level(&line, end);
	digits = find_job(line, end, &job);
	gmtime_r(&when.tv_sec, &utc);
	used = 0;
	append_text("{\"time\":\"");
	append(text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc));
	append(text, snprintf(text, sizeof(text), ".%03ldZ\",\"level\":\"%s\",\"daemon\":", (when.tv_nsec / 1000000L) % 1000, level));
	append_quoted(daemon_name, strnlen(daemon_name, 64));
	if (*cluster) {
		append_text(",\"cluster\":");
		append_quoted(cluster, strnlen(cluster, 256));
	}
	append_text(",\"node\":");
	append_quoted(node, strlen(node));
	if (digits > 0 && digits < 20) {
		append_text(",\"job\":");
		append(job, digits);
	}
	append_text(",\"message\":");
	append_quoted(line, end - line);
	append_text("}\n");
	return print_all(output, used);
}

static void note_end(int number)
{
	(void)number;
	daemon_ended = 1;
}

/* Print the lines of standard input until its end, or until it is empty after the daemon has ended. */
static int filter(void)
{
	static char input[LONGEST_LINE];
	static const struct timespec now;
	size_t length = 0;
	ssize_t count = 1;
	sigset_t none;

	sigemptyset(&none);

	while (count != 0) {
		struct pollfd source = { .fd = STDIN_FILENO, .events = POLLIN };
		char *line = input, *newline;

		/* SIGUSR1 arrives only here, so that it is never missed. */
		int ready = ppoll(&source, 1, daemon_ended ? &now : NULL, &none);

		if (ready < 0)
			continue;
		if (ready == 0)
			break;
		count = read(STDIN_FILENO, input + length, sizeof(input) - length);
		if (count < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (count < 0)
			return 1;
		length += count;
		while ((newline = memchr(line, '\n', input + length - line))) {
			if (!print_line(line, newline - line))
				return 1;
			line = newline + 1;
		}
		length -= line - input;
		memmove(input, line, length);
		if (length == sizeof(input)) {
			if (!print_line(input, length))
				return 1;
			length = 0;
		}
	}
	return length > 0 && !print_line(input, length);
}

static pid_t start_filter(int source, int unused)
{
	pid_t pid = fork();
	sigset_t end;

	if (pid != 0)
		return pid;
	/* A signal to the whole process group ends the daemon; the filter prints what the daemon writes meanwhile. */
	for (int number = 1; number < 32; number++)
		if (number != SIGUSR1 && number != SIGCHLD)
			signal(number, number == SIGSEGV || number == SIGBUS ? SIG_DFL : SIG_IGN);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = note_end }, NULL);
	sigemptyset(&end);
	sigaddset(&end, SIGUSR1);
	sigprocmask(SIG_SETMASK, &end, NULL);
	dup2(source, STDIN_FILENO);
	close(source);
	close(unused);
	_exit(filter());
}

static pid_t start_daemon(char **argv, int target, int unused, const sigset_t *mask)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	sigprocmask(SIG_SETMASK, mask, NULL);
	dup2(target, STDOUT_FILENO);
	dup2(target, STDERR_FILENO);
	close(target);
	close(unused);
	execvp(argv[0], argv);
	fprintf(stderr, "fatal: cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static int run(char **argv)
{
	static const struct timespec pause_time = { .tv_nsec = 100000000 };
	sigset_t all, before;
	int pipe_ends[2], status = 0, killed = 0;
	pid_t daemon_pid, filter_pid;
	bool ended = false;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if (pipe(pipe_ends) != 0)
		return 1;
	filter_pid = start_filter(pipe_ends[0], pipe_ends[1]);
	daemon_pid = start_daemon(argv, pipe_ends[1], pipe_ends[0], &before);
	close(pipe_ends[1]);
	if (filter_pid < 0 || daemon_pid < 0)
		return 1;
	while (true) {
		siginfo_t info;
		int number = ended ? sigtimedwait(&all, &info, &(struct timespec){ .tv_sec = DRAIN_SECONDS }) : sigwaitinfo(&all, &info);
		int child_status;
		pid_t child;

		if (number < 0 && errno == EAGAIN)
			break; /* the filter cannot print, because standard output is blocked */
		if (number > 0 && number != SIGCHLD && !ended)
			kill(daemon_pid, number);
		while ((child = waitpid(-1, &child_status, WNOHANG)) > 0) {
			if (child == daemon_pid) {
				ended = true;
				status = child_status;
				kill(filter_pid, SIGUSR1);
			} else if (child == filter_pid && ended && (WIFEXITED(child_status) || ++killed == MOST_KILLS)) {
				goto done;
			} else if (child == filter_pid) {
				nanosleep(&pause_time, NULL);
				filter_pid = start_filter(pipe_ends[0], -1);
				if (ended)
					kill(filter_pid, SIGUSR1);
			}
		}
	}
done:
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *format = getenv("SLINKY_LOG_FORMAT");
	bool plain = format && strcmp(format, "plain") == 0;

	if (argc < 2) {
		fprintf(stderr, "usage: slinky-log DAEMON [PROGRAM [ARGUMENT...]]\n");
		return 2;
	}
	daemon_name = argv[1];
	cluster = getenv("SLINKY_CLUSTER") ? getenv("SLINKY_CLUSTER") : "";
	gethostname(node, sizeof(node) - 1);
	node[strcspn(node, ".")] = '\0';
	if (plain && argc == 2)
		execlp("cat", "cat", (char *)NULL);
	else if (plain)
		execvp(argv[2], argv + 2);
	else
		return argc == 2 ? filter() : run(argv + 2);
	fprintf(stderr, "fatal: cannot run %s: %s\n", argc == 2 ? "cat" : argv[2], strerror(errno));
	return 127;
}
