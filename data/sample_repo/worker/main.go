// Linkcheck reads URLs from standard input, one a line, and prints those that are dead.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	workers := flag.Int("workers", 8, "how many URLs are checked at once")
	timeout := flag.Duration("timeout", 10*time.Second, "how long one URL may take")
	flag.Parse()

	checker := NewChecker(*timeout)
	dead := 0
	for result := range checker.CheckAll(readLines(os.Stdin), *workers) {
		if !result.Alive() {
			dead++
			fmt.Printf("%s\t%s\n", result.URL, result.Reason())
		}
	}
	if dead > 0 {
		os.Exit(1)
	}
}

// readLines sends the lines of a file, and closes the channel after the last.
func readLines(file *os.File) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(file)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}
