module example.com/canal

go 1.24
