// Toll prints the toll for a boat; it has no tests.
package main

import "fmt"

func main() { fmt.Println("5 shillings") }
