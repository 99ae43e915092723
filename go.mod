module github.com/consul-hds/consul-hds

go 1.26
