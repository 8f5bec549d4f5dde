// Run it as: go build steps.go && ./steps KEY STEP...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// syncguard runs the command with the lock as its input, and returns its output.
func syncguard(lock string, arguments ...string) (string, error) {
	command := exec.Command("syncguard", arguments...)
	command.Stdin, command.Stderr = strings.NewReader(lock), os.Stderr
	output, err := command.Output()
	return string(output), err
}

// run ends the step, with its process group, if the context ends, and within the minute.
func run(ctx context.Context, step, fence string) error {
	command := exec.CommandContext(ctx, "timeout", "-k", "5s", "50s", "sh", "-c", step)
	command.Env = append(os.Environ(), "FENCE="+fence)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	return command.Run()
}

func work(ctx context.Context, key string, steps []string) (err error) {
	lock, err := syncguard("", "acquire", "--no-wait", "--ttl", "1m", "--json", "--", key)
	if err != nil {
		return err
	}
	defer func() {
		// An error of the work is more important.
		if _, released := syncguard(lock, "release", "--from", "-"); err == nil {
			err = released
		}
	}()
	var held struct{ Fence string }
	if err := json.Unmarshal([]byte(lock), &held); err != nil {
		return err
	}
	for _, step := range steps {
		// Another minute for this step.
		extended, err := syncguard(lock, "extend", "--from", "-", "--ttl", "1m")
		if err != nil {
			return err
		}
		lock = extended
		if err := run(ctx, step, held.Fence); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := work(ctx, os.Args[1], os.Args[2:])
	if ctx.Err() != nil {
		os.Exit(143)
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
