module example.org/snip/worker

go 1.21
