module gosmpp

go 1.24

require github.com/linxGnu/gosmpp v0.3.1

require golang.org/x/text v0.20.0 // indirect
