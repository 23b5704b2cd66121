// The CustomResourceDefinitions, for programs that check objects without a cluster.
module spate.dev/crds

go 1.26.0
