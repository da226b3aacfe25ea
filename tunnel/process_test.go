package tunnel_test

func agentProcess(string) int { return 0 }
