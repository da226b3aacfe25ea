//go:build unix

package process_test

func parentMain([]string) int { return 2 }
