// Run it as: go build steps.go && ./steps KEY STEP...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// syncguard runs the command with the lock as its input, and returns its output.
func syncguard(lock string, arguments ...string) (string, error) {
	command := exec.Command("syncguard", arguments...)
	command.Stdin, command.Stderr = strings.NewReader(lock), os.Stderr
	output, err := command.Output()
	return string(output), err
}

func work(key string, steps []string) (err error) {
	lock, err := syncguard("", "acquire", key, "--no-wait", "--ttl", "1m", "--json")
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
		command := exec.Command("sh", "-c", step)
		command.Env = append(os.Environ(), "FENCE="+held.Fence)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	err := work(os.Args[1], os.Args[2:])
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
