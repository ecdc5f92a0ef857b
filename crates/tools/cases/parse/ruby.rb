require 'x'
module A
  # doc
  class P < Base
    K = 1
    def f(a) = g(a)
    # make doc
    def self.make
      new
    end
    def ==(o); foo.bar(1); end
  end
end
