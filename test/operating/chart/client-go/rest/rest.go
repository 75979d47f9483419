// Package rest describes no cluster.
package rest

type Config struct{}
