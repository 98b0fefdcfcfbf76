package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Result says how a URL answered.
type Result struct {
	URL    string
	Status int
	Err    error
}

// Alive reports whether the URL can still be followed.
func (r Result) Alive() bool {
	return r.Err == nil && r.Status < 400
}

// Reason says why a URL is dead, for people.
func (r Result) Reason() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("status %d", r.Status)
}

// Checker asks servers whether a page is still there.
type Checker struct {
	client *http.Client
}

// NewChecker returns a checker that gives each URL at most timeout.
func NewChecker(timeout time.Duration) *Checker {
	return &Checker{client: &http.Client{Timeout: timeout}}
}

// Check asks for the headers only, and for the page when the server does not like that.
func (c *Checker) Check(url string) Result {
	response, err := c.client.Head(url)
	if err == nil && response.StatusCode == http.StatusMethodNotAllowed {
		response.Body.Close()
		response, err = c.client.Get(url)
	}
	if err != nil {
		return Result{URL: url, Err: err}
	}
	defer response.Body.Close()
	return Result{URL: url, Status: response.StatusCode}
}

// CheckAll checks URLs with several workers; the results come in no order.
func (c *Checker) CheckAll(urls <-chan string, workers int) <-chan Result {
	results := make(chan Result)
	var group sync.WaitGroup
	for i := 0; i < workers; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for url := range urls {
				results <- c.Check(url)
			}
		}()
	}
	go func() {
		group.Wait()
		close(results)
	}()
	return results
}
